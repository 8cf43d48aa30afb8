"""What lies ahead of a run under way: who holds up how many, and how long it may still take."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from weft import forecast
from weft.forecast import ForecastJob, ForecastWork
from weft.model import HUMAN, TERMINAL, Attempt, Class, Priority, State, Task, TaskKind

_OVERDUE: Final = 0.1  # of its time so far: what is left of an attempt that takes too long
_NEARLY: Final = 0.95  # how far an attempt under way counts as done, at most

Alike = Callable[[str, str], Sequence[tuple[int, float]]]
"""Recorded (files, seconds) of an agent in a stage."""


class Holdup(Struct, frozen=True, kw_only=True):
    """A task that others wait for."""

    holder: Task
    waiting: tuple[Task, ...]  # those that cannot start before it has landed


def holdups(tasks: Iterable[Task], edges: Sequence[tuple[int, int]]) -> list[Holdup]:
    """Who holds up others, those that hold up the most first.

    A task that itself only waits holds up nobody: whoever it waits for does. What is ready is
    left out: it waits for room, and so do those behind it.
    """
    known = {task.id: task for task in tasks}
    needed_by: dict[int, list[int]] = {}
    for task, need in edges:
        if task in known and known[task].state is State.WAITING:
            needed_by.setdefault(need, []).append(task)
    found = []
    for holder in known.values():
        if holder.id not in needed_by or not _holds_up(holder):
            continue
        behind = [known[one] for one in _reachable(holder.id, needed_by)]
        work = [task for task in behind if task.request.kind is TaskKind.WORK]
        if work:
            found.append(Holdup(holder=holder, waiting=tuple(work)))
    return sorted(found, key=lambda one: (-len(one.waiting), one.holder.id))


def _holds_up(task: Task) -> bool:
    if task.state is State.READY:
        return task.agent == HUMAN
    return task.state not in (State.WAITING, State.DONE, State.SKIPPED)


def _reachable(start: int, successors: Mapping[int, Sequence[int]]) -> list[int]:
    seen: dict[int, None] = {}
    left = [start]
    while left:
        for after in successors.get(left.pop(), ()):
            if after not in seen:
                seen[after] = None
                left.append(after)
    return sorted(seen)


class Durations:
    """How long tasks take: as the same agents took in the same stages, else as this run's did."""

    def __init__(self, alike: Alike, attempts: Iterable[Attempt]) -> None:
        self._alike = alike
        self._known: dict[tuple[str, str], Sequence[tuple[int, float]]] = {}
        ended = [
            one.ended - one.started
            for one in attempts
            if one.ended is not None and one.outcome == "success"
        ]
        self._usual = statistics.median(ended) if ended else None

    def whole(self, task: Task) -> float | None:
        """All stages of a task; None if nothing is known."""
        return self._sum(task, _stages(task))

    def left(self, task: Task) -> float | None:
        """Its stage of now, and what follows."""
        stages = _stages(task)
        names = [stage for stage, _ in stages]
        here = names.index(task.stage) if task.stage in names else 0
        return self._sum(task, stages[here:])

    def _sum(self, task: Task, stages: Sequence[tuple[str, str]]) -> float | None:
        found = [self._one(agent, stage, len(task.files)) for stage, agent in stages]
        known = [one for one in found if one is not None]
        return sum(known) if len(known) == len(found) else None

    def _one(self, agent: str, stage: str, size: int) -> float | None:
        key = (agent, stage)
        if key not in self._known:
            self._known[key] = self._alike(agent, stage)
        return forecast.estimate(self._known[key], size) or self._usual


def _stages(task: Task) -> list[tuple[str, str]]:
    if task.request.stages:
        return [(stage.name, stage.agent) for stage in task.request.stages]
    return [(task.stage or "", task.agent or "")]


class Outlook(Struct, frozen=True, kw_only=True):
    share: float  # of the work that is done, by time
    seconds: float | None  # until nothing is left that can go on by itself; None: nobody knows


def foresee(
    tasks: Sequence[Task],
    edges: Sequence[tuple[int, int]],
    started: Mapping[int, float],
    durations: Durations,
    *,
    slots: int,
    check: float,
    now: float,
) -> Outlook:
    """Simulate the rest of a run. `started` is when the attempts under way did, by task;
    `check` the seconds between a candidate and its landing."""
    work = [task for task in tasks if task.request.kind is TaskKind.WORK and task.agent != HUMAN]
    whole = {task.id: durations.whole(task) for task in work}
    if not work or any(one is None for one in whole.values()):
        done = sum(task.state in TERMINAL for task in work)
        return Outlook(share=done / len(work) if work else 1.0, seconds=None)
    left = {task.id: _left(task, started, durations, now) for task in work}
    total = sum(one or 0.0 for one in whole.values())
    to_do = sum(
        max(left[task.id], (1 - _NEARLY) * (whole[task.id] or 0.0))
        for task in work
        if task.state not in TERMINAL
    )
    ahead = _rest(tasks, edges, left, check)
    stints = forecast.simulate(ahead, max(1, slots)) if ahead.jobs else ()
    seconds = max((stint.end for stint in stints), default=0.0)
    lands = any(task.state not in TERMINAL and task.files for task in work)
    return Outlook(
        share=1 - min(1.0, to_do / total) if total else 1.0,
        seconds=seconds + (check if lands else 0.0),
    )


def _left(task: Task, started: Mapping[int, float], durations: Durations, now: float) -> float:
    if task.state in TERMINAL or task.state is State.GATING:
        return 0.0
    expected = durations.left(task) or 0.0
    if task.id not in started:
        return expected
    spent = max(0.0, now - started[task.id])
    return max(expected - spent, _OVERDUE * spent)


def _rest(
    tasks: Sequence[Task],
    edges: Sequence[tuple[int, int]],
    left: Mapping[int, float],
    check: float,
) -> ForecastWork:
    """What can still go on by itself: without what needs a person, and all that needs that."""
    stuck = {task.id for task in tasks if _needs_a_person(task)}
    needed_by: dict[int, list[int]] = {}
    for after, before in edges:
        needed_by.setdefault(before, []).append(after)
    for one in list(stuck):
        stuck.update(_reachable(one, needed_by))
    going = [task for task in tasks if task.state not in TERMINAL and task.id not in stuck]
    place = {task.id: node for node, task in enumerate(going)}
    successors: list[list[int]] = [[] for _ in going]
    for after, before in edges:
        if after in place and before in place:
            successors[place[before]].append(place[after])
    return ForecastWork(
        jobs=tuple(_job(task, left, check) for task in going), successors=successors
    )


def _needs_a_person(task: Task) -> bool:
    return task.state in (
        State.BLOCKED,
        State.PAUSED,
        State.FAILED,
        State.CANCELLED,
        State.EVICTED,
    ) or (task.agent == HUMAN and task.state not in TERMINAL)


def _job(task: Task, left: Mapping[int, float], check: float) -> ForecastJob:
    if task.state is State.GATING:
        return ForecastJob(name=task.name, seconds=check, runs=False)
    if task.id not in left:
        return ForecastJob(name=task.name, seconds=0.0, runs=False)
    runs = task.state is State.RUNNING  # it has its slot and its files: it goes first
    return ForecastJob(
        name=task.name,
        seconds=left[task.id],
        claims=task.files,
        klass=Class.INTERACTIVE if runs else task.klass,
        priority=Priority.CRITICAL if runs else task.priority,
    )
