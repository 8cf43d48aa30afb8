"""The words of `weft run` before agents start: the problems of the plan and the preview."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import click
from msgspec import Struct, to_builtins
from msgspec.structs import asdict

from weft.errors import InputError
from weft.formats import count, dollars, duration, listed, plain
from weft.model import Run
from weft.operations.submission import Preview, RunDraft, draft_run
from weft.plan.plan_records import Problem, Severity
from weft.plan.split_writer import SPLIT_FORMATS, NewPart
from weft.project.project import Project
from weft.runs import plan_check
from weft.runs.plan_check import CheckedPlan, PlanSource
from weft.runs.plan_splitting import SplitTask, split_plan
from weft.runs.plan_words import list_notes
from weft.runs.preparation import RunOptions
from weft.runs.progress import find_unfinished
from weft.runs.run_figures import explain_bound

_MOST: Final = 3  # warnings of a plan that are shown; the rest is counted
_SHORT: Final = 12  # letters of a commit id


class Ahead(Struct, frozen=True, kw_only=True):
    """A checked plan that can be run."""

    checked: CheckedPlan
    draft: RunDraft
    restarted: tuple[Run, ...] = ()  # runs to cancel before it is submitted
    splits: tuple[tuple[SplitTask, tuple[NewPart, ...]], ...] = ()  # made at submission
    unsplit: bytes = b""  # the plan before them


def prepare_plan(
    project: Project,
    directory: Path,
    file: str,
    options: RunOptions,
    restarted: Sequence[Run] = (),
    *,
    split: bool = False,
) -> Ahead:
    """Check and prepare a plan file, or raise the reason against running it.

    `restarted` are the unfinished runs of the plan that the new run takes the place of; with
    `split`, tasks that are worth it are split.
    """
    path = directory / file
    if not restarted:
        _refuse_second(project, path, file)
    source = plan_check.load(directory, file, options.take, options.format)
    splits: tuple[tuple[SplitTask, tuple[NewPart, ...]], ...] = ()
    with plan_check.setting(directory, project.environment) as around:

        def check(source: PlanSource) -> CheckedPlan:
            return plan_check.check(
                source, around, options.slots, agent=options.agent, stages=options.stages
            )

        checked = check(source)
        if split and not checked.failed and checked.compiled.plan.source in SPLIT_FORMATS:
            data, splits = split_plan(checked, around)
            checked = check(replace(source, data=data)) if splits else checked
    for problem in checked.problems:
        if problem.severity is Severity.ERROR:
            click.echo(f"{_place(problem)}: {problem.message} {problem.suggestion}", err=True)
    if checked.failed:
        raise InputError(f"{file} has errors; correct them first (`weft plan check {file}`).")
    draft = draft_run(project, checked, path, options)
    return Ahead(
        checked=checked, draft=draft, restarted=tuple(restarted), splits=splits, unsplit=source.data
    )


def _refuse_second(project: Project, path: Path, file: str) -> None:
    if not project.has_store:
        return
    with project.open_store() as store:
        unfinished = find_unfinished(store, path)
    if unfinished:
        raise InputError(
            f"{file} has an unfinished run, {unfinished[0].id}: `weft run --resume "
            f"{unfinished[0].id}` goes on with it; `weft run {file} --restart` cancels it, keeps "
            "its landed work and starts anew."
        )


def _split_lines(ahead: Ahead) -> Iterator[str]:
    """Say which tasks are split, into which files."""
    for split, parts in ahead.splits:
        files = "; ".join(listed([plain(file) for file in part.files], most=3) for part in parts)
        gain = split.advice.reason
        yield f"  split   {split.task.id} into {len(parts)} parts, {gain}: {files}"


def head_lines(ahead: Ahead, run: str, preview: Preview) -> Iterator[str]:
    """Describe a run that was just submitted."""
    then = f", then {preview.into}" if preview.into else ""
    agents = ", ".join(f"{agent.agent} ({agent.program})" for agent in preview.agents) or "no agent"
    yield from _forecast(ahead.checked)
    yield from _split_lines(ahead)
    yield f"{preview.base[:_SHORT]} → weft/{run}{then}; by {agents}"
    yield f"checked by {_check(preview)}"
    yield from _warnings(ahead.checked, preview)


def dry_run_lines(ahead: Ahead, preview: Preview) -> Iterator[str]:
    options = ahead.draft.options
    yield from _forecast(ahead.checked)
    yield f"  from    {options.base}, commit {preview.base[:_SHORT]}"
    then = f"; {preview.into} moves there when everything has landed" if preview.into else ""
    yield f"  to      a new branch {preview.branch}{then}"
    pipelines = [(" → ".join(line.stages), line.tasks) for line in preview.pipelines]
    yield from _split_lines(ahead)
    yield f"  stages  {'; '.join(f'{name} ({_tasks(many)})' for name, many in pipelines) or 'none'}"
    for agent in preview.agents:
        elsewhere = f"on {', '.join(agent.hosts)}" if agent.hosts else "not installed"
        where = agent.path or elsewhere
        yield f"  agent   {agent.agent}: {agent.program}, {where} ({_tasks(agent.tasks)})"
    yield f"  check   {_check(preview)}"
    if options.micro_usd is not None:
        yield f"  budget  {dollars(options.micro_usd)}"
    yield from _warnings(ahead.checked, preview)
    yield "Nothing was started: this was a dry run."


def as_dict(ahead: Ahead, preview: Preview) -> dict[str, Any]:
    """Return the preview for programs, with the answer of `weft plan check --json`."""
    return {
        **plan_check.as_json(ahead.checked),
        "file": ahead.checked.name,
        "base": preview.base,
        "branch": preview.branch,
        "into": preview.into,
        "at_once": ahead.checked.forecast.at_once,
        "micro_usd": ahead.draft.options.micro_usd,
        "stages": [asdict(pipeline) for pipeline in preview.pipelines],
        "agents": [asdict(agent) for agent in preview.agents],
        "checks": {
            "run": preview.check,
            "own": preview.own_checks,
            "unchecked": preview.unchecked,
        },
        "splits": [
            {"task": split.task.id, "subtasks": to_builtins(parts)} for split, parts in ahead.splits
        ],
        "warnings": list(preview.warnings),
    }


def _forecast(checked: CheckedPlan) -> Iterator[str]:
    left = [task for task in checked.compiled.plan.tasks if not task.settled]
    ahead = checked.forecast
    why = explain_bound(ahead.bounds, checked.critical_path)
    yield (
        f"{plain(checked.name)}: {_tasks(len(left))}, up to {ahead.at_once} at once, "
        f"{count(ahead.slots, 'slot')}"
    )
    yield f"about {duration(ahead.seconds)}, at best {duration(ahead.bounds.lower)} ({why})"
    if checked.guesses:
        yield f"a guess: {listed(checked.guesses)}"


def _check(preview: Preview) -> str:
    own = f"the own check of {_tasks(preview.own_checks)}" if preview.own_checks else ""
    return " and ".join(check for check in (preview.check, own) if check) or "nothing"


def _warnings(checked: CheckedPlan, preview: Preview) -> Iterator[str]:
    for warning in preview.warnings:
        yield f"! {warning}"
    yield from list_notes(checked)
    problems = [problem for problem in checked.problems if problem.severity is Severity.WARNING]
    for problem in problems[:_MOST]:
        yield plain(f"! {_place(problem)}: {problem.message}")
    if len(problems) > _MOST:
        more = count(len(problems) - _MOST, "more warning")
        yield f"! … {more}: `weft plan check {checked.name}`"


def _place(problem: Problem) -> str:
    return f"{problem.file}:{problem.line}:{problem.column}"


def _tasks(number: int) -> str:
    return count(number, "task")
