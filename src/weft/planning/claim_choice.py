"""The price of a claim: which of the predicted files a task claims.

A claim on a file that the task changes saves a redo, if another task at work changes the file too.
A claim on a file that the task leaves alone makes those tasks wait for nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import prod
from types import MappingProxyType
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from weft.model import PredictedFile
from weft.paths import Index, quote
from weft.plan.plan_json import DEFAULT_SECONDS
from weft.plan.plan_records import Plan, PlanTask, Problem, Reference, Severity
from weft.planning.history import CoChange, History

USUAL_REDO: Final = DEFAULT_SECONDS
"""Seconds of a redo in a repository without records."""

USUAL_HOLD: Final = DEFAULT_SECONDS + 60.0
"""Seconds for which a claim is held in a repository without records: an attempt and its check."""

LEAST_SURE: Final = 0.15
"""Probability below which not even the most probable file stands for a task."""

_REMAINDER: Final = 0.5  # part of a claim's time that a task waits on average


class ClaimPrices(Struct, frozen=True, kw_only=True):
    redo: float = USUAL_REDO  # mean seconds of an attempt that is done again
    hold: float = USUAL_HOLD  # mean seconds for which a task holds its claims


class TaskFiles(Struct, frozen=True, kw_only=True):
    """The files of a task that may be at work at the same time as others."""

    declared: tuple[str, ...] = ()  # patterns
    predicted: tuple[PredictedFile, ...] = ()


def is_worth_claiming(probability: float, rivals: Sequence[float], prices: ClaimPrices) -> bool:
    """Compare the redo that a claim saves with the waiting that it causes.

    `rivals` are the probabilities with which each task at work touches the file.
    """
    touched = 1.0 - prod(1.0 - rival for rival in rivals)
    waiting = sum(rivals) * prices.hold * _REMAINDER
    return probability * touched * prices.redo > (1.0 - probability) * waiting


def choose_claims(
    tasks: Mapping[str, TaskFiles],
    slots: int,
    prices: ClaimPrices,
    held: Iterable[tuple[str, int]] = (),
    rates: Mapping[str, float] = MappingProxyType({}),
) -> dict[str, tuple[PredictedFile, ...]]:
    """Mark the predicted files that each task claims.

    `held` are the patterns that tasks at work hold now, with the numbers of those tasks. `rates`
    are the shares of all commits that changed each file: tasks not known yet touch it as often.

    A hub is never claimed. The most probable file of a task is claimed at any price, because a task
    without a claim may change nothing. If even that file is improbable, the task has no prediction.
    """
    rivals = _Rivals(tasks, slots, held, rates)
    return {
        name: _choose(name, files.predicted, rivals, prices)
        for name, files in tasks.items()
        if not files.declared
        and any(not file.may_touch for file in files.predicted if file.probability >= LEAST_SURE)
    }


def _choose(
    name: str, files: Sequence[PredictedFile], rivals: _Rivals, prices: ClaimPrices
) -> tuple[PredictedFile, ...]:
    first = next(file for file in files if not file.may_touch)
    return tuple(
        replace(
            file,
            claimed=file is first
            or (
                not file.may_touch
                and is_worth_claiming(file.probability, rivals.of(name, file.path), prices)
            ),
        )
        for file in files
    )


class _Rivals:
    """The probabilities with which other tasks touch a file."""

    def __init__(
        self,
        tasks: Mapping[str, TaskFiles],
        slots: int,
        held: Iterable[tuple[str, int]],
        rates: Mapping[str, float],
    ) -> None:
        self._rates = rates
        self._beside = slots - 1
        # The chance that a given task is at work while this task is.
        self._at_work = min(1.0, (slots - 1) / max(1, len(tasks) - 1))
        self._declared: Index[str] = Index()
        self._held: Index[int] = Index()
        for pattern, holder in held:
            self._held.add(pattern, holder)
        self._predicted: dict[str, list[tuple[str, float]]] = {}
        for name, files in tasks.items():
            for pattern in files.declared:
                self._declared.add(pattern, name)
            for file in files.predicted if not files.declared else ():
                self._predicted.setdefault(file.path, []).append((name, file.probability))

    def of(self, name: str, path: str) -> list[float]:
        declared = {task for _, task in self._declared.find(quote(path))} - {name}
        predicted = [share for task, share in self._predicted.get(path, ()) if task != name]
        held = {holder for _, holder in self._held.find(quote(path))}
        ahead = [self._at_work * share for share in (*[1.0] * len(declared), *predicted)]
        return [1.0] * len(held) + ahead + [self._rates.get(path, 0.0)] * self._beside


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
