"""The outlook of a running run: the tasks with waiting tasks behind them, and the time left."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from weft import forecast
from weft.forecast import ForecastJob, ForecastWork
from weft.model import HUMAN, TERMINAL, Class, Priority, State, Task, TaskKind
from weft.runs.duration_estimates import DurationEstimates
from weft.runs.run_figures import list_successors

_OVERDUE: Final = 0.1  # rest of an overdue attempt, as a part of its time so far
_NEARLY: Final = 0.95  # part up to which a running attempt counts as done


class Holdup(Struct, frozen=True, kw_only=True):
    holder: Task
    waiting: tuple[Task, ...]  # tasks that cannot start before it has landed


def list_holdups(tasks: Iterable[Task], edges: Sequence[tuple[int, int]]) -> list[Holdup]:
    """List the tasks that hold up tasks, those with the most waiting tasks first.

    A waiting task holds up none: the task it waits for does. A ready task waits for room, and so
    do the tasks behind it.
    """
    known = {task.id: task for task in tasks}
    needed_by: dict[int, list[int]] = {}
    for task, need in edges:
        if task in known and known[task].state is State.WAITING:
            needed_by.setdefault(need, []).append(task)
    holdups = []
    for holder in known.values():
        if holder.id not in needed_by or not _holds_up(holder):
            continue
        behind = [known[task] for task in _reachable(holder.id, needed_by)]
        work = [task for task in behind if task.request.kind is TaskKind.WORK]
        if work:
            holdups.append(Holdup(holder=holder, waiting=tuple(work)))
    return sorted(holdups, key=lambda holdup: (-len(holdup.waiting), holdup.holder.id))


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


class Outlook(Struct, frozen=True, kw_only=True):
    share: float  # part of the work that is done, by time
    seconds: float | None  # until no task can go on without a person; None: unknown


def predict_rest(
    tasks: Sequence[Task],
    edges: Sequence[tuple[int, int]],
    started: Mapping[int, float],
    estimates: DurationEstimates,
    *,
    slots: int,
    check: float,
    now: float,
) -> Outlook:
    """Simulate the rest of a run.

    `started` has the start of each running attempt by task; `check` is the time from a candidate
    to its landing.
    """
    work = [task for task in tasks if task.request.kind is TaskKind.WORK and task.agent != HUMAN]
    whole = {task.id: estimates.of_task(task) for task in work}
    if not work or None in whole.values():
        done = sum(task.state in TERMINAL for task in work)
        return Outlook(share=done / len(work) if work else 1.0, seconds=None)
    left = {task.id: _left(task, started, estimates, now) for task in work}
    total = sum(seconds or 0.0 for seconds in whole.values())
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


def _left(
    task: Task, started: Mapping[int, float], estimates: DurationEstimates, now: float
) -> float:
    if task.state in TERMINAL or task.state is State.GATING:
        return 0.0
    expected = estimates.of_rest(task) or 0.0
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
    """Return the work that goes on without a person: no stuck task, and no task behind it."""
    stuck = {task.id for task in tasks if _needs_a_person(task)}
    needed_by: dict[int, list[int]] = {}
    for after, before in edges:
        needed_by.setdefault(before, []).append(after)
    for task in list(stuck):
        stuck.update(_reachable(task, needed_by))
    going = [task for task in tasks if task.state not in TERMINAL and task.id not in stuck]
    return ForecastWork(
        jobs=tuple(_job(task, left, check) for task in going),
        successors=list_successors(going, edges),
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
    runs = task.state is State.RUNNING  # it has its slot and its files, so it goes first
    return ForecastJob(
        name=task.name,
        seconds=left[task.id],
        claims=task.files,
        klass=Class.INTERACTIVE if runs else task.klass,
        priority=Priority.CRITICAL if runs else task.priority,
    )
