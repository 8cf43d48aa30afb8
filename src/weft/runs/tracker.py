"""A run that is followed: its progress, kept up to date by the events since the last look.

Only changed rows are read again, so that following a thousand tasks costs little. All rows are
read again now and then, in case a change was missed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from weft.errors import StoreError
from weft.model import Attempt, Event, State, Task
from weft.runs.attention import read_attention
from weft.runs.event_text import shorten_report
from weft.runs.progress import RunProgress, read_progress
from weft.store import Store
from weft.store.check_orders import OpenCheck
from weft.store.event_log import last_event, read_events
from weft.store.gate import read_gate
from weft.store.leases import list_open
from weft.store.runs import get_run
from weft.store.tasks import find_tasks, list_run_edges, list_run_states

_WHOLE: Final = 60.0  # seconds after which all rows are read again
_NEEDS: Final = 0.5  # seconds after which the needs for people are read again
_BEFORE: Final = 1000  # earlier events that hold the agents' present activity
_OF_THE_GATE: Final = frozenset(
    {
        "checked",
        "entry_queued",
        "entry_rejected",
        "entry_withdrawn",
        "gate_blocked",
        "gate_unblocked",
        "landed",
        "landing_intended",
    }
)
_OF_THE_RUN: Final = frozenset({"run_started", "run_ended", "gate_blocked", "gate_unblocked"})


class AgentActivity(Struct, frozen=True, kw_only=True):
    """The present activity of an attempt, as its agent reported it."""

    attempt: int
    text: str = ""
    tokens: int = 0
    micro_usd: int = 0


class EventReader:
    """The events of a store, each once."""

    def __init__(self, store: Store, *, after: int) -> None:
        self._store = store
        self._after = after

    def fresh(self) -> list[Event]:
        news: list[Event] = []
        while events := self._page(news):
            self._after = events[-1].id
            news += events
        return news

    def _page(self, news: list[Event]) -> list[Event]:
        try:
            return read_events(self._store, after=self._after)
        except StoreError:
            if news:
                return []  # return the events that were read before the error
            raise


class RunTracker:
    """A followed run. `take_in` brings it up to date."""

    progress: RunProgress
    _tasks: dict[int, Task]
    _attempts: dict[int, list[Attempt]]
    _read_at: float
    _needs_at: float

    def __init__(self, store: Store, run: str, *, now: float) -> None:
        self.run = run
        self.doing: dict[int, AgentActivity] = {}  # by task
        self.checks: list[OpenCheck] = []  # the oldest first
        self.ended_at: float | None = None
        self.edges = list_run_edges(store, run)
        self._store = store
        self._entries: dict[int, tuple[str, ...]] = {}  # in each check, by fence
        self._read_everything(now)
        last = last_event(store)
        for event in read_events(store, after=max(0, last - _BEFORE), most=_BEFORE):
            self._listen(event)
        self.read_checks()

    def take_in(self, events: Iterable[Event], *, now: float) -> bool:
        """Bring the run up to date; return True if rows changed, and not only agents' reports."""
        changed = self._take_in(events, now=now)
        if changed or not 0 <= now - self._needs_at < _NEEDS:
            self.read_needs(now=now)
        return changed

    def read_needs(self, *, now: float) -> None:
        """Read the needs for people, which also other runs and limits change."""
        self.progress = replace(self.progress, needs=read_attention(self._store, now=now))
        self._needs_at = now

    def _take_in(self, events: Iterable[Event], *, now: float) -> bool:
        mine = [event for event in events if event.run == self.run or event.run is None]
        for event in mine:
            self._listen(event)
        kinds = {event.kind for event in mine if event.kind != "progress"}
        if now - self._read_at > _WHOLE:
            self._read_everything(now)
            return True
        if not kinds:
            return False
        read_at, self._read_at = self._read_at, -math.inf  # after an error all rows are read
        self._read_tasks({event.task for event in mine if event.kind != "progress" and event.task})
        changes: dict[str, Any] = {}
        if kinds & _OF_THE_GATE:
            changes["gate"] = read_gate(self._store, self.run)
        if kinds & {"lease_taken", "lease_reaped", *_OF_THE_GATE}:
            self.read_checks()
        if kinds & _OF_THE_RUN:
            changes["run"] = get_run(self._store, self.run)
        self.progress = replace(
            self.progress,
            tasks=tuple(self._tasks.values()),
            attempts=tuple(
                attempt for task in self._tasks for attempt in self._attempts.get(task, ())
            ),
            **changes,
        )
        self._read_at = read_at
        return True

    def read_checks(self) -> None:
        """Read the checks under way; the end of a cancelled check is no event."""
        self.checks = [
            OpenCheck(since=lease.granted, entries=self._entries.get(lease.fence, ()))
            for lease in list_open(self._store)
            if (lease.kind, lease.holder) == ("check", self.run)
        ]

    @property
    def running(self) -> list[tuple[Task, Attempt]]:
        """The attempts under way, the oldest first."""
        pairs = [
            (task, attempts[-1])
            for task in self._tasks.values()
            if task.state in (State.RUNNING, State.PAUSED)
            and (attempts := self._attempts.get(task.id))
            and attempts[-1].ended is None
        ]
        return sorted(pairs, key=lambda pair: (pair[1].started, pair[0].id))

    @property
    def micro_usd(self) -> int:
        """The cost so far, attempts under way included."""
        ended = sum(
            attempt.micro_usd for attempt in self.progress.attempts if attempt.ended is not None
        )
        return ended + sum(self.doing_of(task, attempt).micro_usd for task, attempt in self.running)

    def doing_of(self, task: Task, attempt: Attempt) -> AgentActivity:
        known = self.doing.get(task.id)
        if known is None or known.attempt != attempt.number:
            return AgentActivity(attempt=attempt.number)
        return known

    def _read_everything(self, now: float) -> None:
        self.progress = read_progress(self._store, self.run)
        self._needs_at = now
        self._tasks = {task.id: task for task in self.progress.tasks}
        self._attempts = {}
        for attempt in self.progress.attempts:
            self._attempts.setdefault(attempt.task, []).append(attempt)
        self._read_at = now

    def _read_tasks(self, named: set[int]) -> None:
        """Read the named tasks again, and the tasks whose state has changed."""
        states = list_run_states(self._store, self.run)
        known = self._tasks
        moved = {
            number
            for number, (state, since) in states.items()
            if number not in known or (known[number].state, known[number].since) != (state, since)
        }
        wanted = moved | (named & states.keys())
        if not wanted:
            return
        tasks, attempts = find_tasks(self._store, wanted)
        for task in tasks:
            self._tasks[task.id] = task
            self._attempts[task.id] = []
        for attempt in attempts:
            self._attempts[attempt.task].append(attempt)

    def _listen(self, event: Event) -> None:
        """Take from an event the facts that no row has: agents' reports and entries in a check."""
        data = event.data
        match event.kind:
            case "progress" if event.task is not None and event.run == self.run:
                self._hear(event.task, data)
            case "lease_taken" if (data["lease"], data["holder"]) == ("check", self.run):
                self._entries[data["fence"]] = tuple(data.get("entries", ()))
            case "run_ended" if event.run == self.run:
                self.ended_at = event.at

    def _hear(self, task: int, data: Mapping[str, Any]) -> None:
        attempt = int(data.get("attempt", 0))
        before = self.doing.get(task)
        if before is None or before.attempt != attempt:
            before = AgentActivity(attempt=attempt)
        text = before.text
        for report in data.get("events", ()):
            text = shorten_report(report) or text
        self.doing[task] = AgentActivity(
            attempt=attempt,
            text=text,
            tokens=data.get("tokens", before.tokens),
            micro_usd=data.get("micro_usd", before.micro_usd),
        )
