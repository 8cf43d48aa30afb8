"""`weft plan split`"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
from msgspec import Struct, to_builtins

from weft import plan
from weft.cli.output import json_option, show
from weft.cli.plan import plan_text
from weft.errors import InputError
from weft.formats import duration, listed, plain
from weft.plan.plan_records import Source
from weft.plan.split_writer import SPLIT_FORMATS, NewPart, list_ids, write_parts
from weft.planning.splitting import SECONDS_PER_FILE
from weft.runs import plan_check, plan_file, plan_splitting
from weft.runs.plan_check import CheckedPlan, PlanSource
from weft.runs.plan_splitting import SplitTask, write_texts


class SplitProposal(Struct, frozen=True, kw_only=True):
    split: SplitTask
    parts: tuple[NewPart, ...] = ()  # empty: a split does not pay
    by: str = "files"  # or the agent that wrote the parts


@click.command(name="split")
@click.argument("file", metavar="PLAN")
@click.argument("task", required=False, metavar="[TASK]")
@click.option("--write", is_flag=True, help="Put the subtasks into PLAN.")
@click.option("--agent", metavar="NAME", help="The planner. Default: the agent of `stage: plan`.")
@click.option("--by-files", is_flag=True, help="Ask no agent; take the groups of files.")
@plan_text.slots_option
@plan_text.format_option
@json_option
@click.pass_obj
def command(
    directory: Path,
    file: str,
    task: str | None,
    write: bool,
    agent: str | None,
    by_files: bool,
    slots: int | None,
    plan_format: Source | None,
    as_json: bool,
) -> int:
    """Propose subtasks for a task that is worth splitting.

    A split pays where the files of a task fall into groups that rarely change together, and where
    its parts end 30 % earlier after set-up, merge and checks. The agent with `stage: plan` writes
    the parts of TASK, if there is one; otherwise they follow the groups of files. Nothing is
    changed without --write.

    Example: weft plan split plan.md 1.2 --write
    """
    if agent is not None and task is None:
        raise InputError(f"Name the task that {agent} is to split: weft plan split {file} 1.2.")
    source = plan_check.load(directory, file, format=plan_format)
    with plan_check.setting(directory, os.environ) as around:
        checked = plan_check.check(source, around, slots)
        if checked.failed:
            plan_text.print_problems(checked)
            return 2
        _require_splittable(checked, task)
        advice = plan_splitting.advise_plan(checked, around, only=task)
        asks = task is not None and not by_files
        proposals = [
            _propose(directory, split, agent, quiet=as_json, asks=asks) for split in advice
        ]
    paying = [proposal for proposal in proposals if proposal.parts]
    if write:
        for proposal in paying:
            _write(directory / file, source, proposal)
    fields = [_as_json(proposal, written=write) for proposal in proposals]
    lines = _lines(proposals, checked, file, written=write)
    show(fields, map(plain, lines), as_json=as_json)
    return 0 if task is None or paying else 1


def _require_splittable(checked: CheckedPlan, task: str | None) -> None:
    whole = checked.compiled.plan
    if whole.source not in SPLIT_FORMATS:
        raise InputError(
            f"{whole.name} is a plan of {whole.source}, in which weft writes no subtasks; a "
            "plan.md and a prd.json can be split."
        )
    if task is None:
        return
    tasks = {each.id: each for each in whole.tasks}
    if task not in tasks:
        raise InputError(f"{whole.name} has no task {task!r}; there are {listed(list(tasks))}.")
    if any(each.parent == task for each in whole.tasks):
        raise InputError(f"{task} is split already.")
    if tasks[task].parent is not None:
        raise InputError(f"{task} is itself a part of {tasks[task].parent}.")
    if tasks[task].settled or tasks[task].manual:
        raise InputError(f"{task} is done, skipped or a person's step: there is nothing to split.")


def _propose(
    directory: Path, split: SplitTask, agent: str | None, *, quiet: bool, asks: bool
) -> SplitProposal:
    if not split.advice.pays:
        return SplitProposal(split=split)
    if asks:
        from weft.cli.plan.planner_questions import ask_planner  # late: it needs a worker

        planned = ask_planner(directory, split, agent, quiet=quiet)
        if planned is not None:
            return SplitProposal(split=split, parts=planned[1], by=planned[0])
    return SplitProposal(split=split, parts=tuple(write_texts(split.task, split.advice.parts)))


class _SplitFile(Struct, frozen=True):
    data: bytes


def _write(path: Path, source: PlanSource, proposal: SplitProposal) -> None:
    wanted = proposal.split.task

    def change(data: bytes) -> _SplitFile:
        whole = plan.read(source.name, data, plan.ReaderOptions(format=source.format)).plan
        task = next((task for task in whole.tasks if task.id == wanted.id), None)
        if task is None or task.text != wanted.text:
            raise InputError(f"{source.name} has changed; split it again.")
        return _SplitFile(write_parts(whole, data, task, proposal.parts))

    plan_file.update(path, change)


def _lines(
    proposals: Sequence[SplitProposal], checked: CheckedPlan, file: str, *, written: bool
) -> Iterator[str]:
    for proposal in proposals:
        advice = proposal.split.advice
        title = f"{advice.task} {proposal.split.task.title}"
        if not proposal.parts:
            yield f"{title}: no split, since {advice.reason}"
            continue
        by = "" if proposal.by == "files" else f" ({proposal.by} wrote the parts)"
        yield f"{title}: {len(proposal.parts)} parts, {advice.reason}{by}"
        ids = list_ids(checked.compiled.plan, proposal.split.task, len(proposal.parts))
        for part, id in zip(proposal.parts, ids, strict=True):
            waits = f", after {listed([ids[place] for place in part.after])}" if part.after else ""
            yield f"  {id} {part.text}"
            yield f"    files: {listed(part.files)}{waits}"
    yield from guess_lines([proposal.split for proposal in proposals])
    if not proposals:
        yield "There is nothing left to split."
    elif any(proposal.parts for proposal in proposals):
        yield (
            f"Wrote the subtasks into {file}."
            if written
            else (f"`weft plan split {file} … --write` puts this into the file.")
        )


def _as_json(proposal: SplitProposal, *, written: bool) -> dict[str, Any]:
    return {
        **advice_json(proposal.split),
        "by": proposal.by if proposal.parts else None,
        "subtasks": proposal.parts,
        "written": written and bool(proposal.parts),
    }


def advice_json(split: SplitTask) -> dict[str, Any]:
    """Return the advice for programs; times are seconds."""
    return to_builtins(split.advice)  # type: ignore[no-any-return] # a record becomes a dict


def advice_lines(splits: Sequence[SplitTask]) -> Iterator[str]:
    """Yield which tasks are worth splitting, and why the others are not."""
    reasons: dict[str, list[str]] = {}
    for split in splits:
        if split.advice.pays:
            yield f"{split.task.id} into {len(split.advice.parts)} parts: {split.advice.reason}"
        else:
            reasons.setdefault(split.advice.reason, []).append(split.task.id)
    for reason, tasks in reasons.items():
        yield f"not {listed(tasks)}: {reason}"
    yield from guess_lines(splits)


def guess_lines(splits: Sequence[SplitTask]) -> Iterator[str]:
    if any(split.is_guess for split in splits):
        yield f"These times are guesses: {duration(SECONDS_PER_FILE)} for each file."
