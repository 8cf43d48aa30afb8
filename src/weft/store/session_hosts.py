"""Tasks that wait for the host of their session.

The session and the workspace of an attempt are on a single host. If the agent can continue its
session (after a rate limit, a sleep or a question), the task is kept for the worker of that host.
After `tuning.prefer` seconds, or when that worker leaves, any host may start a new attempt from the
work at home.
"""

from __future__ import annotations

from weft.model import GOES_ON, RESUMED, SWARM, Outcome
from weft.store.database import Row, Transaction


def prefer_host(tx: Transaction, lease: Row, task: Row, outcome: Outcome) -> None:
    """Keep a task for the worker of its session, if the session can continue and there are other
    hosts; else end an earlier preference."""
    if task["repo"].startswith(SWARM) or task["gang"] is not None:
        return  # members have no sessions here; a gang starts at a single worker
    goes_on = outcome.session is not None and outcome.kind in GOES_ON | RESUMED
    if goes_on and tx.value("other_hosts", host=lease["host"]):
        if task["pinned"] is None or task["pin_until"] is not None:
            tx.run("set_pin", id=task["id"], pinned=lease["worker"], until=0.0)
    elif task["pin_until"] is not None:
        tx.run("set_pin", id=task["id"], pinned=None, until=None)
