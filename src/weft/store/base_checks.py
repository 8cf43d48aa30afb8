"""Runs whose base is to be checked: no agent of an untested run starts.

A run is untested from its submission over the network, or from the moment its gate doubts the base
because tasks fail for a cause that is not theirs. Its gate checks the base: a pass lets agents
start; a failure blocks the gate for a person, and the run stays untested.
"""

from __future__ import annotations

from weft.errors import NotFound
from weft.store.database import Transaction
from weft.store.gate import block_gate, require_holder
from weft.store.store import writes

_RED = "red"  # the kind of failure of a task whose check failed


@writes
def doubt_base(tx: Transaction, fence: int, run: str, reason: str, *, now: float) -> None:
    """Let no agent of a run start before its base has passed a check."""
    require_holder(tx, fence, run)
    tx.run("set_untested", run=run, untested=True)
    tx.event("base_doubted", now=now, run=run, reason=reason)


@writes
def accept_base(tx: Transaction, fence: int, run: str) -> None:
    """Let the agents of a run start: its base passed."""
    require_holder(tx, fence, run)
    tx.run("set_untested", run=run, untested=False)
    tx.wake()


@writes
def refuse_base(tx: Transaction, fence: int, run: str, reason: str, *, now: float) -> None:
    """Block the gate of a run whose base failed its check.

    Tasks that the gate sent back since a check last passed are not charged for that.
    """
    since = tx.value("last_passed", run=run)
    tx.run("forgive_failures", run=run, kind=_RED, since=since or 0.0)
    block_gate(tx, fence, run, reason, now=now)


@writes
def skip_base_check(tx: Transaction, run: str) -> None:
    """Let the agents of a run start without a check of its base."""
    if tx.one("run", id=run) is None:
        raise NotFound(f"There is no run {run}.")
    tx.run("set_untested", run=run, untested=False)
    tx.wake()
