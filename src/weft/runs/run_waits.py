"""The times in which a run waited: for people (questions, blocked tasks, pauses), for providers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from weft.model import HUMAN, Attempt, Event, State, Task
from weft.runs.run_figures import Span
from weft.store import Store
from weft.store.event_log import list_of_kind

_KINDS: Final = (
    *("attempt_finished", "task_blocked", "task_paused", "task_resumed", "task_reopened"),
    *("task_approved", "task_skipped", "task_cancelled"),
)
_WAITS: Final = frozenset({State.BLOCKED, State.PAUSED})


def read_waits(
    store: Store,
    run: str,
    tasks: Sequence[Task],
    edges: Sequence[tuple[int, int]],
    attempts: Sequence[Attempt],
    *,
    now: float,
) -> tuple[list[Span], list[Span]]:
    """List the times in which a task of a run waited for a person, and for a provider."""
    events = [event for kind in _KINDS for event in list_of_kind(store, run, kind)]
    return find_waits(events, tasks, edges, attempts, now=now)


def find_waits(
    events: Iterable[Event],
    tasks: Sequence[Task],
    edges: Sequence[tuple[int, int]],
    attempts: Sequence[Attempt],
    *,
    now: float,
) -> tuple[list[Span], list[Span]]:
    waits: list[Span] = []
    parked: list[Span] = []
    open_waits: dict[int, float] = {}
    for event in sorted(events, key=lambda event: event.id):
        task = event.task or 0
        began = open_waits.pop(task, None)
        if began is not None:
            waits.append((began, event.at))
        if _begins_wait(event):
            open_waits[task] = event.at
        if event.kind == "attempt_finished" and event.data["state"] == State.PARKED:
            parked.append((event.at, _next_start(task, event.at, attempts, now)))
    waits += [(began, now) for began in open_waits.values()]
    return [*waits, *_questions(tasks, edges, now)], parked


def _begins_wait(event: Event) -> bool:
    if event.kind == "attempt_finished":
        return event.data["state"] in _WAITS
    return event.kind in ("task_blocked", "task_paused")


def _next_start(task: int, after: float, attempts: Sequence[Attempt], now: float) -> float:
    starts = [
        attempt.started for attempt in attempts if attempt.task == task and attempt.started >= after
    ]
    return min(starts, default=now)


def _questions(
    tasks: Sequence[Task], edges: Sequence[tuple[int, int]], now: float
) -> Iterable[Span]:
    """Yield the times in which a task asked a person, from the landing of its last need."""
    ended = {task.id: task.since for task in tasks if task.state in (State.DONE, State.SKIPPED)}
    for task in tasks:
        if task.agent != HUMAN or task.state is State.WAITING:
            continue
        needs = [ended.get(need, task.submitted) for after, need in edges if after == task.id]
        yield max(needs, default=task.submitted), now if task.state is State.READY else task.since
