"""The log: append-only, numbered in commit order, readable from any number on."""

from __future__ import annotations

import json
from functools import cached_property

from msgspec import Struct

from weft.model import Event
from weft.store import row_records
from weft.store.database import Transaction
from weft.store.store import reads, writes


@reads
def read_events(tx: Transaction, *, after: int = 0, most: int = 1000) -> list[Event]:
    """List the events after a number. No event with a lower number can appear later."""
    return [row_records.event(row) for row in tx.all("events_after", after=after, most=most)]


class FollowedEvent(Struct, frozen=True, kw_only=True, dict=True):
    """An event for followers."""

    id: int
    at: float
    kind: str
    run: str | None
    task: int | None
    data: str  # JSON on a single line

    @cached_property
    def block(self) -> bytes:
        """The event in the form of server-sent events, made once for all followers."""
        about = json.dumps(
            {"id": self.id, "at": self.at, "kind": self.kind, "run": self.run, "task": self.task}
        )
        return f'id: {self.id}\ndata: {about[:-1]}, "data": {self.data}}}\n\n'.encode()


@reads
def read_followed(tx: Transaction, *, after: int, most: int) -> list[FollowedEvent]:
    """List the events after a number."""
    return [
        row_records.record(FollowedEvent, row)
        for row in tx.all("events_told", after=after, most=most)
    ]


@reads
def history(tx: Transaction, task: int) -> list[Event]:
    """List the events of a task without its admissions, which `list_attempts` returns."""
    return [row_records.event(row) for row in tx.all("events_of_task", task=task)]


@reads
def list_run_events(tx: Transaction, run: str) -> list[Event]:
    """List the events of a run, oldest first, without the progress of agents."""
    rows = tx.all("events_of_run", run=run)
    return [row_records.event(row) for row in rows if row["run"] is not None]


@reads
def list_of_kind(tx: Transaction, run: str, kind: str) -> list[Event]:
    """List the events of one kind about the tasks of a run, oldest first; not admissions."""
    return [row_records.event(row) for row in tx.all("events_of_kind", run=run, kind=kind)]


@reads
def last_event(tx: Transaction) -> int:
    return int(tx.value("last_event"))


@writes
def record_mirror_failure(tx: Transaction, run: str, task: int, *, reason: str, now: float) -> None:
    """Record that the issue of a task could not be updated."""
    tx.event("mirror_failed", now=now, run=run, task=task, reason=reason)
