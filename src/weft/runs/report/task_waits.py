"""The times in which tasks of a run could have started and did not, with the cause of each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from weft.model import HUMAN, TERMINAL, Attempt, Event, State, Task, TaskKind
from weft.runs.report.report_records import TaskWait
from weft.store.run_history import RunHistory

_SHORTEST: Final = 0.5  # seconds of a wait
_CAUSES: Final = {State.BLOCKED: "person", State.PAUSED: "person", State.PARKED: "provider"}
_OPEN: Final = frozenset({State.READY, State.BLOCKED, State.PAUSED, State.PARKED, State.OFFERED})
_DECIDED: Final = frozenset({"review_accepted", "review_sent_back", "task_cancelled"})


def list_task_waits(past: RunHistory, *, now: float) -> list[TaskWait]:
    """List the waits of each task, from the moment at which no other task was in its way."""
    tasks = {task.id: task for task in past.tasks}
    attempts: dict[int, list[Attempt]] = {}
    for attempt in sorted(past.attempts, key=lambda attempt: attempt.started):
        attempts.setdefault(attempt.task, []).append(attempt)
    events: dict[int, list[Event]] = {}
    for event in past.events:
        if event.task is not None:
            events.setdefault(event.task, []).append(event)
    waits: list[TaskWait] = []
    for task in past.tasks:
        needs = [tasks[need] for need in past.needs.get(task.id, ())]
        in_the_way = any(need.state not in TERMINAL for need in needs)
        if task.request.kind is not TaskKind.WORK or in_the_way:
            continue
        ready = max([past.run.submitted, *(need.since for need in needs)])
        own = attempts.get(task.id, [])
        waits += _list_waits(task, ready, own, events.get(task.id, []), now)
        waits += _list_reviews(task, events.get(task.id, []), now)
    return waits


def _list_reviews(task: Task, events: list[Event], now: float) -> Iterator[TaskWait]:
    opened: float | None = None
    for event in (*events, None):
        if opened is not None and (event is None or event.kind in _DECIDED):
            end = now if event is None else event.at
            yield TaskWait(task_id=task.id, task=task.name, start=opened, end=end, cause="person")
            opened = None
        if event is not None and event.kind == "review_opened":
            opened = event.at


def _list_waits(
    task: Task, ready: float, attempts: list[Attempt], events: list[Event], now: float
) -> Iterator[TaskWait]:
    begin: float | None = ready
    for attempt in attempts:
        if begin is not None:
            yield from _wait(task, begin, attempt.started, events, now)
        begin = attempt.ended
    if begin is not None and task.state in _OPEN:
        yield from _wait(task, begin, now, events, now)


def _wait(
    task: Task, begin: float, end: float, events: list[Event], now: float
) -> Iterator[TaskWait]:
    between = [event for event in events if begin <= event.at < end]
    # The gate has an attempt's work until it is sent back, which is an event.
    since = max([begin, *(event.at for event in between)])
    if end - since < _SHORTEST:
        since = begin
    states = [event.data.get("state") for event in between]
    cause = next((_CAUSES[state] for state in reversed(states) if state in _CAUSES), "room")
    if end == now and task.state in _CAUSES:
        cause = _CAUSES[task.state]
    if task.agent == HUMAN:
        cause = "person"
    if end - since >= _SHORTEST:
        yield TaskWait(task_id=task.id, task=task.name, start=since, end=end, cause=cause)
