"""Marks of parallelism ([P] of spec-kit) that the history of the repository contradicts.

Neighbours that a plan marks [P] run together. If a file of one and a file of the other mostly
changed together, the later task waits for the earlier, and the author is told.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from weft.plan.plan_records import Plan, PlanTask, Problem, Reference, Severity
from weft.predict.history import CoChange, History

_MOSTLY: Final = 0.5  # share of the commits of either file that changed both


def order_doubtful(plan: Plan, history: History) -> tuple[Plan, tuple[Problem, ...]]:
    """Let tasks marked [P] follow each other where their files change together."""
    needs: dict[str, list[Reference]] = {}
    problems: list[Problem] = []
    for group in _list_groups(plan.tasks):
        for before, after, file, together in _list_doubts(group, history):
            own = needs.setdefault(after.id, list(after.depends))
            if before.id not in {reference.to for reference in own}:
                own.append(Reference(to=before.id, line=after.line))
                problems.append(_problem(plan, before, after, file, together))
    tasks = tuple(
        replace(task, depends=tuple(needs[task.id])) if task.id in needs else task
        for task in plan.tasks
    )
    return replace(plan, tasks=tasks), tuple(problems)


def _list_groups(tasks: Sequence[PlanTask]) -> Iterator[list[PlanTask]]:
    """Yield the open neighbours of a phase that are marked [P]."""
    group: list[PlanTask] = []
    for task in tasks:
        if group and not (task.parallel and task.phase == group[-1].phase):
            yield group
            group = []
        if task.parallel:
            group.append(task)
    if group:
        yield group


def _list_doubts(
    group: Sequence[PlanTask], history: History
) -> Iterator[tuple[PlanTask, PlanTask, str, CoChange]]:
    """Yield pairs of tasks with a file of the first and a file of the second that go together."""
    owners: dict[str, list[int]] = {}
    for place, task in enumerate(group):
        for file in () if task.settled else task.files or ():
            owners.setdefault(file, []).append(place)
    for file, places in owners.items():
        for together in () if history.is_hub(file) else history.list_together(file):
            is_close = together.count >= _MOSTLY * together.of and not history.is_hub(together.path)
            for neighbour in owners.get(together.path, ()) if is_close else ():
                for place in places:
                    if place != neighbour:
                        first, second = sorted((place, neighbour))
                        yield group[first], group[second], file, together


def _problem(
    plan: Plan, before: PlanTask, after: PlanTask, file: str, together: CoChange
) -> Problem:
    return Problem(
        file=plan.name,
        line=after.line,
        column=after.column + 1,
        code="parallel-doubtful",
        severity=Severity.WARNING,
        message=f"{before.id} and {after.id} are marked [P], but {file} and {together.path} "
        f"changed together in {together.count} of {together.of} commits; {after.id} waits for "
        f"{before.id}.",
        suggestion="Leave off [P], or give both files to one task.",
    )
