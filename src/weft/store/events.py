"""The log: append-only, numbered in commit order, readable from any number on."""

from __future__ import annotations

from weft.model import Event
from weft.store import records
from weft.store.database import Transaction
from weft.store.store import reads, writes


@reads
def read_events(tx: Transaction, *, after: int = 0, most: int = 1000) -> list[Event]:
    """The events that follow a known one. Nothing with a lower number can appear later."""
    return [records.event(row) for row in tx.all("events_after", after=after, most=most)]


@reads
def history(tx: Transaction, task: int) -> list[Event]:
    """What happened to a task between its admissions, which `list_attempts` tells of."""
    return [records.event(row) for row in tx.all("events_of_task", task=task)]


@reads
def last_event(tx: Transaction) -> int:
    return int(tx.value("last_event"))


@writes
def record_mirror_failure(tx: Transaction, run: str, task: int, *, reason: str, now: float) -> None:
    """The issue a task was made from could not be told what became of it; others go on."""
    tx.event("mirror_failed", now=now, run=run, task=task, reason=reason)
