"""Draining: nobody admits anything more, on any host, until a person says otherwise.

One row that every admission reads. What runs goes on to its end, and the gate goes on landing.
"""

from __future__ import annotations

from weft.store.database import Transaction
from weft.store.store import writes


@writes
def drain(tx: Transaction, *, now: float) -> bool:
    """Admit nothing more; False if that was so before."""
    if tx.value("drained") is not None:
        return False
    tx.run("set_drained", since=now)
    tx.event("drained", now=now)
    return True


@writes
def undo_drain(tx: Transaction, *, now: float) -> bool:
    """Admit again; False if nobody had drained."""
    if tx.value("drained") is None:
        return False
    tx.run("set_drained", since=None)
    tx.event("drain_undone", now=now)
    tx.wake()
    return True
