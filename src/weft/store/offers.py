"""Offers and assignments: work proposed to a worker. An offer holds no capacity."""

from __future__ import annotations

from weft.errors import AtCapacity, NotFound, Refused
from weft.model import Capacity, Grant, State
from weft.store import ready
from weft.store.admission import admit_task
from weft.store.database import Row, Transaction
from weft.store.ledger import Ledger
from weft.store.store import reads, writes
from weft.store.tasks import get_row


@writes
def offer(tx: Transaction, task: int, worker: str, *, now: float) -> None:
    """Offer a ready task to a worker; the offer ends if the worker stays silent or leaves."""
    row = get_row(tx, task)
    if row["state"] != State.READY:
        raise Refused(f"Task {task} is {row['state']}; only a ready task can be offered.")
    Ledger(tx, now).place(worker)
    ready.leave(tx, row, State.OFFERED, now=now, until=now + tx.tuning.offer, offered_to=worker)
    tx.event("task_offered", row, now=now, worker=worker)


@writes
def accept(tx: Transaction, task: int, worker: str, *, now: float) -> list[Grant]:
    """Accept an offer and start the task, if it is admissible now.

    Empty means that it cannot start at this moment: it is ready for all workers again.
    """
    row = _offered(tx, task, worker)
    ready.requeue(tx, row["id"], now=now)
    return admit_task(tx, worker, task, now=now)


@writes
def reject(tx: Transaction, task: int, worker: str, *, now: float, reason: str = "") -> None:
    row = _offered(tx, task, worker)
    ready.requeue(tx, row["id"], now=now, reason=reason)
    tx.event("offer_rejected", row, now=now, worker=worker, reason=reason)


def _offered(tx: Transaction, task: int, worker: str) -> Row:
    row = get_row(tx, task)
    if row["state"] != State.OFFERED or row["offered_to"] != worker:
        raise Refused(f"Task {task} is not offered to {worker} (any more).")
    return row


def withdraw_all(tx: Transaction, worker: str, *, now: float) -> None:
    """End the offers to a departed worker and the preferences for it."""
    for row in tx.all("offers_to", worker=worker):
        ready.requeue(tx, row["id"], now=now)
        tx.event("offer_withdrawn", row, now=now, worker=worker)
    for row in tx.all("preferences_for", worker=worker):
        ready.end_preference(tx, row, now=now)


@reads
def find_room(tx: Transaction, worker: str, *, now: float) -> Capacity:
    """Return a worker's slots; tasks assigned to it that have not started count as used."""
    ledger = Ledger(tx, now)
    ledger.place(worker)
    slots = ledger.nominal.get(f"worker:{worker}")
    if slots is None:
        raise NotFound(f"Worker {worker} has no slots; register it first.")
    waiting = tx.value("pinned_waiting", worker=worker)
    return Capacity(current=ledger.used.get(f"worker:{worker}", 0) + waiting, max=slots)


@writes
def assign(tx: Transaction, task: int, worker: str, *, now: float, or_queue: bool = False) -> None:
    """Assign a task to a worker for good. Refuse at capacity unless it may queue."""
    row = get_row(tx, task)
    if row["state"] not in (State.READY, State.WAITING, State.PARKED):
        raise Refused(f"Task {task} is {row['state']} and cannot be assigned.")
    room = find_room(tx, worker, now=now)
    if not room.available and not or_queue and row["pinned"] != worker:
        raise AtCapacity(f"{worker} is at capacity ({room.current}/{room.max}).")
    together = [row] if row["gang"] is None else tx.all("gang_members", gang=row["gang"])
    for member in together:  # a gang goes to a single worker
        tx.run("set_pin", id=member["id"], pinned=worker, until=None)
        if member["state"] == State.READY:
            ready.requeue(tx, member["id"], now=now)
    tx.event("task_assigned", row, now=now, worker=worker)
