"""The tasks of a plan found again in its edited file.

An id that the author chose is an identity. Otherwise the text counts, since numbers shift when a
task is inserted: a number alone is believed only if the text is nearly the same. To mark the wrong
task done would be worse than to lose a task.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Final

from weft.model import State
from weft.plan import task_line
from weft.plan.plan_records import Plan, PlanTask

_SIMILAR: Final = 0.6
_COMPARED: Final = 300


def match_tasks(before: Plan, now: Plan, ids: Iterable[str]) -> dict[str, PlanTask]:
    """Find the tasks with these ids of the plan `before` in the plan `now`."""
    wanted = [task for task in before.tasks if task.id in set(ids)]
    matches: dict[str, PlanTask] = {}
    # Every task of the old plan has a say, so that none takes the place of another.
    for old, new in _pairs(before, now):
        matches.setdefault(old.id, new)
    return {task.id: matches[task.id] for task in wanted if task.id in matches}


def _pairs(before: Plan, now: Plan) -> list[tuple[PlanTask, PlanTask]]:
    old = {task.id: task for task in before.tasks}
    new = {task.id: task for task in now.tasks}
    pairs: list[tuple[PlanTask, PlanTask]] = []

    def pair(a: PlanTask, b: PlanTask) -> None:
        pairs.append((a, b))
        del old[a.id], new[b.id]

    for task in before.tasks:
        now_task = new.get(task.id)
        if now_task and ((task.named and now_task.named) or _bare(task) == _bare(now_task)):
            pair(task, now_task)
    headings = {phase.label: phase.title for phase in now.phases}
    old_headings = {phase.label: phase.title for phase in before.phases}
    by_text: dict[str, list[PlanTask]] = {}
    for task in new.values():
        by_text.setdefault(_bare(task), []).append(task)
    for task in list(old.values()):
        same = [candidate for candidate in by_text.get(_bare(task), ()) if candidate.id in new]
        if len(same) > 1:
            title = old_headings[task.phase]
            same = [candidate for candidate in same if headings[candidate.phase] == title]
        if len(same) == 1:
            pair(task, same[0])
    for task in list(old.values()):
        now_task = new.get(task.id)
        if now_task and not now_task.named and not task.named and _alike(task, now_task):
            pair(task, now_task)
    return pairs


def _bare(task: PlanTask) -> str:
    """Return the text without a tail that would be read as a commit id once the task is done."""
    return task_line.split_sentence(task.text, State.DONE).text


def _alike(task: PlanTask, now_task: PlanTask) -> bool:
    a, b = task.text[:_COMPARED], now_task.text[:_COMPARED]
    return difflib.SequenceMatcher(None, a, b, autojunk=False).ratio() >= _SIMILAR
