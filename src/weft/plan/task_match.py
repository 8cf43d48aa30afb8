"""Which task of an edited plan is which task of the plan as it was read.

An id the author chose is an identity. Otherwise it is the text that counts, since numbers
shift when a task is put in: a number alone is believed only if the text is still much the same.
Marking the wrong task done would be worse than losing sight of one.
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


def match(before: Plan, now: Plan, ids: Iterable[str]) -> dict[str, PlanTask]:
    """Find the tasks with these ids of the plan `before` in the plan `now`."""
    wanted = [task for task in before.tasks if task.id in set(ids)]
    found: dict[str, PlanTask] = {}
    # Every task of the old plan has a say, so that none takes the place of another.
    for old, new in _pairs(before, now):
        found.setdefault(old.id, new)
    return {task.id: found[task.id] for task in wanted if task.id in found}


def _pairs(before: Plan, now: Plan) -> list[tuple[PlanTask, PlanTask]]:
    old = {task.id: task for task in before.tasks}
    new = {task.id: task for task in now.tasks}
    pairs: list[tuple[PlanTask, PlanTask]] = []

    def pair(a: PlanTask, b: PlanTask) -> None:
        pairs.append((a, b))
        del old[a.id], new[b.id]

    for task in before.tasks:
        other = new.get(task.id)
        if other and ((task.named and other.named) or _bare(task) == _bare(other)):
            pair(task, other)
    headings = {phase.label: phase.title for phase in now.phases}
    old_headings = {phase.label: phase.title for phase in before.phases}
    by_text: dict[str, list[PlanTask]] = {}
    for task in new.values():
        by_text.setdefault(_bare(task), []).append(task)
    for task in list(old.values()):
        same = [other for other in by_text.get(_bare(task), ()) if other.id in new]
        if len(same) > 1:
            title = old_headings[task.phase]
            same = [other for other in same if headings[other.phase] == title]
        if len(same) == 1:
            pair(task, same[0])
    for task in list(old.values()):
        other = new.get(task.id)
        if other and not other.named and not task.named and _alike(task, other):
            pair(task, other)
    return pairs


def _bare(task: PlanTask) -> str:
    """The text without anything that could be taken for a commit id once it is done."""
    return task_line.sentence(task.text, State.DONE).text


def _alike(task: PlanTask, other: PlanTask) -> bool:
    a, b = task.text[:_COMPARED], other.text[:_COMPARED]
    return difflib.SequenceMatcher(None, a, b, autojunk=False).ratio() >= _SIMILAR
