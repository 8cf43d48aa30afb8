"""Runs whose base is to be checked: no agent of an untested run starts.

A run is untested from its submission over the network, or from the moment its base is in doubt:
tasks fail their checks for a cause that is not theirs, or a workspace cannot be set up. Its gate
checks the base: a pass lets agents start; a failure blocks the gate for a person, and the run stays
untested.
"""

from __future__ import annotations

from weft.errors import NotFound
from weft.model import Demand
from weft.store.database import Transaction
from weft.store.gate import block_gate, require_holder
from weft.store.leases import release
from weft.store.store import writes

DOUBTED = "base_doubted"
"""The kind of event that records a doubt."""

_RED = "red"  # the kind of failure of a task whose check failed
_NOT_SET_UP = "its workspace could not be set up"  # the end of an attempt that raised a doubt


@writes
def doubt_base(tx: Transaction, fence: int, run: str, reason: str, *, now: float) -> None:
    """Let no agent of a run start before its base has passed a check."""
    require_holder(tx, fence, run)
    tx.run("set_untested", run=run, untested=True)
    tx.event(DOUBTED, now=now, run=run, reason=reason)


@writes
def doubt_set_up(tx: Transaction, fence: int, reason: str, *, now: float, spent: Demand) -> bool:
    """Hand back an attempt whose workspace could not be set up, and doubt the base of its run.

    Return False, without a change, if the attempt before raised the same doubt: the base has passed
    since then, so the task is to blame.
    """
    lease = tx.one("lease", fence=fence)
    task = None if lease is None else tx.one("task", id=lease["task"])
    if lease is None or task is None or task["run"] is None:
        return False
    ended = {row["number"]: row["outcome"] for row in tx.all("attempts_of", task=task["id"])}
    if ended.get(lease["attempt"] - 1) == _NOT_SET_UP:
        return False
    if release(tx, fence, now=now, reason=_NOT_SET_UP, spent=spent):
        tx.run("set_untested", run=task["run"], untested=True)
        tx.event(DOUBTED, task, now=now, reason=reason)
        tx.wake()
    return True


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
