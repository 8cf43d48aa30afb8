"""Advice on splitting the tasks of a plan, from history, records and the forecast."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from msgspec import Struct

from weft import git
from weft.formats import listed
from weft.paths import is_literal, matches
from weft.plan.plan_records import ItemKind, PlanTask
from weft.plan.split_writer import NewPart, write_parts
from weft.planning.history import History
from weft.planning.predictor import FileTree
from weft.planning.splitting import (
    LEAST_FILES,
    SECONDS_PER_FILE,
    KnownFiles,
    Part,
    PartRole,
    SplitAdvice,
    SplitCosts,
    advise,
    order_parts,
)
from weft.project.file_knowledge import add_imports
from weft.project.history_index import read_index
from weft.runs.outlook import DurationEstimates, read_estimates
from weft.runs.plan_check import USUAL_STAGE, CheckedPlan, Setting, list_stages, read_source

_MOST_TASKS: Final = 100
_MOST_FILES: Final = 200


class SplitTask(Struct, frozen=True, kw_only=True):
    """An open task of a plan, with the advice on splitting it."""

    task: PlanTask
    files: tuple[str, ...]
    advice: SplitAdvice
    costs: SplitCosts
    is_guess: bool  # no record tells how long its parts take


def advise_plan(
    checked: CheckedPlan, around: Setting, only: str | None = None
) -> tuple[SplitTask, ...]:
    """Return the advice for each open task and story, or for `only`.

    Without a repository there is no advice.
    """
    if around.root is None:
        return ()
    tasks = [
        task
        for task in checked.compiled.plan.tasks
        if task.kind in (ItemKind.TASK, ItemKind.STORY) and not (task.settled or task.manual)
    ]
    chosen = [task for task in tasks if only in (None, task.id)][:_MOST_TASKS]
    paths = git.list_tracked_files(around.root)
    files = {task.id: _expand(task, paths) for task in chosen}
    known = _read_known(around.root, paths, files.values())
    estimates = None if around.store is None else read_estimates(around.store)
    tails = {job.name: job.tail for job in checked.work.jobs}
    return tuple(
        _advise(task, files[task.id], known, _costs(task, tails[task.id], checked, estimates))
        for task in chosen
    )


def _read_known(root: Path, paths: Sequence[str], changed: Iterable[Sequence[str]]) -> KnownFiles:
    """Read the knowledge about the files of tasks that have enough of them."""
    files = dict.fromkeys(path for own in changed if len(own) >= LEAST_FILES for path in own)
    tree = FileTree({*paths, *files})
    if not git.has_commits(root):
        return KnownFiles(history=History(), mirrors=tree.mirrors, imports={})
    tip = git.get_commit(root, "HEAD").id
    return KnownFiles(
        history=read_index(root, tip).history,
        mirrors=tree.mirrors,
        imports=add_imports(root, tip, tree, list(files)[:_MOST_FILES]).imports,
    )


def _advise(
    task: PlanTask, files: Sequence[str], known: KnownFiles, costs: SplitCosts
) -> SplitTask:
    if task.kind is ItemKind.STORY:
        advice = SplitAdvice(task=task.id, pays=False, reason="it is split already")
    elif not files and task.files is None:
        advice = SplitAdvice(task=task.id, pays=False, reason="its files are not known")
    else:
        advice = advise(task.id, files, known, costs)
    return SplitTask(
        task=task,
        files=tuple(files),
        advice=advice,
        costs=costs,
        is_guess=bool(advice.parts) and costs.seconds(1) == SECONDS_PER_FILE,
    )


def _costs(
    task: PlanTask, check: float, checked: CheckedPlan, estimates: DurationEstimates | None
) -> SplitCosts:
    return SplitCosts(
        slots=checked.forecast.slots, check=check, seconds=_estimate_size(task, estimates)
    )


def _estimate_size(task: PlanTask, estimates: DurationEstimates | None) -> Callable[[int], float]:
    """Return a function from the number of files to the expected seconds of such a task."""

    def seconds(files: int) -> float:
        if estimates is not None:
            known = estimates.of_stages(list_stages(task, USUAL_STAGE, ()), files)
            if known is not None:
                return known
        return SECONDS_PER_FILE * files

    return seconds


def _expand(task: PlanTask, paths: Iterable[str]) -> list[str]:
    """Return the files that the patterns of a task match, those that it creates, or those that it
    is predicted to change."""
    if task.files is None:
        return [file.path for file in task.predicted if file.claimed]
    patterns = task.files
    files = dict.fromkeys(pattern for pattern in patterns if is_literal(pattern))
    globs = [pattern for pattern in patterns if not is_literal(pattern)]
    if globs:
        files |= dict.fromkeys(
            path for path in paths if any(matches(pattern, path) for pattern in globs)
        )
    return list(files)[:_MOST_FILES]


def split_plan(
    checked: CheckedPlan, around: Setting
) -> tuple[bytes, tuple[tuple[SplitTask, tuple[NewPart, ...]], ...]]:
    """Return the plan with every task split that is worth it, and those tasks with their parts."""
    data = checked.source.data
    splits = [split for split in advise_plan(checked, around) if split.advice.pays]
    made = tuple((split, tuple(write_texts(split.task, split.advice.parts))) for split in splits)
    for split, parts in made:
        # Parts are written behind their task, so each is written into the plan as it is by now.
        whole = read_source(replace(checked.source, data=data)).plan
        task = next(task for task in whole.tasks if task.id == split.task.id)
        data = write_parts(whole, data, task, parts)
    return data, made


def write_texts(task: PlanTask, parts: Sequence[Part]) -> list[NewPart]:
    """Return the subtasks for groups of files, with the text of their task."""
    title = task.title.rstrip(".")
    waits: list[list[int]] = [[] for _ in parts]
    for place, following in enumerate(order_parts(parts)):
        for after in following:
            waits[after].append(place)
    return [
        NewPart(
            text=_TEXTS[part.role].format(files=listed(part.files, most=4), title=title),
            files=part.files,
            new=tuple(file for file in part.files if file in task.new),
            after=tuple(before),
        )
        for part, before in zip(parts, waits, strict=True)
    ]


_TEXTS: Final = {
    PartRole.FIRST: "{title}: first {files}, for the other parts",
    PartRole.GROUP: "{title}: the part in {files}",
    PartRole.LAST: "{title}: last {files}, which connect the parts",
}
