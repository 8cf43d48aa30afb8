"""The outlook of a running run: the tasks with waiting tasks behind them, and the time left."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from weft import forecast
from weft.admission.capacity import list_labels
from weft.forecast import ForecastJob, ForecastWork, Stint
from weft.model import HUMAN, TERMINAL, Class, Priority, State, Task, TaskKind
from weft.plan.plan_json import DEFAULT_SECONDS
from weft.runs.duration_estimates import CHECK_SECONDS, PERSON_SECONDS, DurationEstimates
from weft.runs.run_figures import list_successors

_OVERDUE: Final = 0.1  # rest of an overdue attempt, as a part of its time so far
_STUCK: Final = frozenset(
    {State.BLOCKED, State.PAUSED, State.FAILED, State.CANCELLED, State.EVICTED}
)
_TO_START: Final = frozenset({State.WAITING, State.READY, State.OFFERED, State.PARKED})


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
    share: float  # part of the work that is done, weighted by time
    seconds: float  # until no task can go on without a person; no step of a person is in it
    people: bool  # something waits for a person, or will
    guess: bool  # some of it has no record
    schedule: tuple[Stint, ...] = ()  # of the tasks that will run, in seconds from now


class CheckTimes(Struct, frozen=True, kw_only=True):
    """The usual length of a check, and the checks under way."""

    usual: float | None  # None: a check is configured and none was measured
    since: Mapping[int, float] = {}  # when the check of a task began


def predict_rest(
    tasks: Sequence[Task],
    edges: Sequence[tuple[int, int]],
    started: Mapping[int, float],
    estimates: DurationEstimates,
    *,
    slots: int,
    checks: CheckTimes,
    rooms: Mapping[frozenset[str], int] | None = None,
    now: float,
) -> Outlook:
    """Simulate the rest of a run; `started` has the start of each running attempt by task.

    `rooms` has the slots of present workers with the labels that tasks need.
    """
    work = [task for task in tasks if task.request.kind is TaskKind.WORK]
    whole = {task.id: _whole(task, estimates) for task in work}
    left = {task.id: _left(task, started, estimates, now) for task in work}
    ahead = _rest(tasks, edges, left, checks, rooms or {}, now)
    going = [task for task in work if task.state not in TERMINAL]
    predicted = forecast.forecast(ahead, max(1, slots)) if ahead.jobs else None
    return Outlook(
        share=_share(work, {task: seconds or DEFAULT_SECONDS for task, seconds in whole.items()}),
        seconds=0.0 if predicted is None else predicted.seconds,
        schedule=() if predicted is None else tuple(predicted.schedule),
        people=any(task.agent == HUMAN or task.state in _STUCK for task in going),
        guess=any(whole[task.id] is None for task in going)
        or (checks.usual is None and bool(going)),
    )


def _share(work: Sequence[Task], whole: Mapping[int, float]) -> float:
    """Return the part of the work that has landed; an attempt that was sent back is no part."""
    asked = [task for task in work if task.state is not State.SKIPPED]
    total = sum(whole[task.id] for task in asked)
    done = sum(whole[task.id] for task in asked if task.state is State.DONE)
    return done / total if total else 1.0


def _whole(task: Task, estimates: DurationEstimates) -> float | None:
    return PERSON_SECONDS if task.agent == HUMAN else estimates.of_task(task)


def _left(
    task: Task, started: Mapping[int, float], estimates: DurationEstimates, now: float
) -> float:
    if task.state in TERMINAL or task.state is State.GATING or task.agent == HUMAN:
        return 0.0
    expected = estimates.of_rest(task) or DEFAULT_SECONDS
    if task.id not in started:
        return expected
    spent = max(0.0, now - started[task.id])
    return max(expected - spent, _OVERDUE * spent)


def _rest(
    tasks: Sequence[Task],
    edges: Sequence[tuple[int, int]],
    left: Mapping[int, float],
    checks: CheckTimes,
    rooms: Mapping[frozenset[str], int],
    now: float,
) -> ForecastWork:
    """Return the work that goes on: no task that needs a decision or a worker with labels that no
    present worker has, and no task behind it."""
    stuck = {
        task.id
        for task in tasks
        if task.state in _STUCK
        or (task.state in _TO_START and rooms.get(list_labels(task.demand)) == 0)
    }
    needed_by: dict[int, list[int]] = {}
    for after, before in edges:
        needed_by.setdefault(before, []).append(after)
    for task in list(stuck):
        stuck.update(_reachable(task, needed_by))
    going = [task for task in tasks if task.state not in TERMINAL and task.id not in stuck]
    return ForecastWork(
        jobs=tuple(_job(task, left, _check(task, checks, now)) for task in going),
        successors=list_successors(going, edges),
        rooms={labels: slots for labels, slots in rooms.items() if slots},
    )


def _check(task: Task, checks: CheckTimes, now: float) -> float:
    """Return the seconds until a task's check has ended, which may be under way."""
    usual = CHECK_SECONDS if checks.usual is None else checks.usual
    if task.id not in checks.since:
        return usual
    spent = max(0.0, now - checks.since[task.id])
    return max(usual - spent, _OVERDUE * spent)


def _job(task: Task, left: Mapping[int, float], check: float) -> ForecastJob:
    if task.state is State.GATING:
        return ForecastJob(name=task.name, seconds=check, runs=False)
    if task.id not in left or task.agent == HUMAN:
        return ForecastJob(name=task.name, seconds=left.get(task.id, 0.0), runs=False)
    runs = task.state is State.RUNNING  # it has its slot and its files, so it goes first
    return ForecastJob(
        name=task.name,
        seconds=left[task.id],
        tail=check if task.files else 0.0,
        claims=task.files,
        klass=Class.INTERACTIVE if runs else task.klass,
        priority=Priority.CRITICAL if runs else task.priority,
        labels=list_labels(task.demand),
    )
