"""The host of a session: a task that goes on is kept for it for a while.

Only that host has the session and the workspace of the last attempt. After `tuning.prefer` seconds,
or when its worker leaves, any host may start a new attempt from the work at home.
"""

from __future__ import annotations

from weft.model import GOES_ON, RESUMED, SWARM, Outcome
from weft.store.database import Row, Transaction


def prefer_host(tx: Transaction, lease: Row, task: Row, outcome: Outcome) -> None:
    """Let a task prefer the worker of its session, if another host could take it; else end an
    earlier preference."""
    if task["repo"].startswith(SWARM) or task["gang"] is not None:
        return  # members have no sessions here; a gang starts at a single worker
    goes_on = outcome.session is not None and outcome.kind in GOES_ON | RESUMED
    if goes_on and tx.value("other_hosts", host=lease["host"]):
        if task["pinned"] is None or task["pin_until"] is not None:
            tx.run("set_pin", id=task["id"], pinned=lease["worker"], until=0.0)
    elif task["pin_until"] is not None:
        tx.run("set_pin", id=task["id"], pinned=None, until=None)
