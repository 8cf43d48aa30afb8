"""The end of a task without an outcome of an attempt."""

from __future__ import annotations

from weft.model import State
from weft.store import ready
from weft.store.claims import give_up
from weft.store.database import Row, Transaction
from weft.store.entries import enter_each


def end_task(tx: Transaction, row: Row, state: State, *, now: float, reason: str) -> None:
    """End a task without an outcome of an attempt. A running process keeps its amounts until it has
    ended; its later effects are refused."""
    ready.leave(tx, row, state, now=now, reason=reason)
    give_up(tx, row)
    tx.run(
        "end_attempt",
        task=row["id"],
        number=row["attempt"],
        now=now,
        outcome=str(state),
        led_to=None,
    )
    tx.event(f"task_{state}", row, now=now, reason=reason)
    if tx.one("team", task=row["id"]) is None:
        enter_each(tx, row["id"], now=now)
    if state is State.SKIPPED:
        ready.settle_dependents(tx, row["id"], now=now)
    elif row["state"] == State.GATING:
        ready.unsettle_dependents(tx, row["id"], now=now)  # there is no candidate to build on
    if row["gang"] is not None:
        rest = tx.all("gang_members", gang=row["gang"])
        ready.settle(tx, [member["id"] for member in rest], now=now)
        for member in rest:  # its files may have excluded them
            tx.run("look_at", id=member["id"])
    tx.wake()
