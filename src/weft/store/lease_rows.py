"""Rows of leases: written with their amounts, ended, and their spending settled."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from weft.admission import capacity
from weft.errors import InputError
from weft.model import Demand, State
from weft.store.database import Row, Transaction, encode
from weft.store.ledger import Ledger


class NewLease(Struct, frozen=True, kw_only=True):
    fence: int
    kind: str  # attempt, run, gate, check, projection, team
    holder: str
    granted: float
    deadline: float | None
    worker: str | None = None
    host: str | None = None
    task: int | None = None
    attempt: int | None = None
    turn: str | None = None  # the tenant whose admission this is


def write_lease(tx: Transaction, lease: NewLease, costs: str) -> None:
    """Write a lease and its costs: amounts as a JSON object."""
    tx.run("add_lease", lease)
    tx.run("add_costs", fence=lease.fence, costs=costs)


def lease_to_worker(
    tx: Transaction,
    ledger: Ledger,
    worker: str,
    costs: Demand,
    *,
    kind: str,
    holder: str,
    now: float,
    task: int | None = None,
    attempt: int | None = None,
) -> int:
    """Write a lease that a present worker must renew; return its fence."""
    lease = NewLease(
        fence=ledger.next_fence(),
        kind=kind,
        holder=holder,
        granted=now,
        deadline=now + tx.tuning.lease,
        worker=worker,
        host=ledger.place(worker).host,
        task=task,
        attempt=attempt,
    )
    write_lease(tx, lease, encode(dict(costs)))
    return lease.fence


def note_taken(
    tx: Transaction,
    fence: int,
    worker: str,
    *,
    kind: str,
    holder: str,
    entries: Sequence[str],
    tree: str = "",
    now: float,
) -> None:
    """Log that a worker took a gate or a check; `tree` is that of a check for home."""
    tx.event(
        "lease_taken",
        now=now,
        fence=fence,
        lease=kind,
        holder=holder,
        worker=worker,
        entries=entries,
        tree=tree,
    )


def end_lease(tx: Transaction, lease: Row, ended: str, *, now: float) -> None:
    """Release a lease. Its amounts are free as soon as this commits."""
    tx.run("end_lease", fence=lease["fence"], now=now, ended=ended)
    tx.run("drop_units", fence=lease["fence"])
    tx.wake()


def settle_spending(tx: Transaction, lease: Row, spent: Demand) -> None:
    """Record the spending of a lease: the whole reservation where no amount is given."""
    for resource, amount in spent.items():
        if not capacity.is_consumable(resource):
            raise InputError(f"{resource} is not used up, so it cannot be spent.")
        if not 0 <= amount <= capacity.MOST:
            raise InputError(f"{amount} of {resource} cannot have been spent.")
    reserved = {
        row["resource"]: row["amount"]
        for row in tx.all("costs_of", fence=lease["fence"])
        if capacity.is_consumable(row["resource"])
    }
    for resource, amount in sorted({**reserved, **spent}.items()):
        tx.run("settle_spending", resource=resource, fence=lease["fence"], amount=amount)


def end_attempt(
    tx: Transaction, lease: Row, outcome: str, *, now: float, led_to: State | None = None
) -> None:
    tx.run(
        "end_attempt",
        task=lease["task"],
        number=lease["attempt"],
        now=now,
        outcome=outcome,
        led_to=led_to,
    )
