"""The ledger: limits, use and present workers, as a transaction sees them; and the rows of leases.

Use is never stored: it is the sum over the open leases, and for consumables also the spending of
ended leases.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from weft.admission import capacity, provider_pressure
from weft.admission.rule import Bypassed, PresentWorker, must_yield
from weft.errors import InputError, NotFound, StaleFence
from weft.model import Demand, State
from weft.store import row_records
from weft.store.database import Row, Transaction, encode

NONCE_BITS: Final = 24
"""The random part of a fence. The count above it stays exact in JavaScript up to 2**29 leases."""


_AWAITED: Final = 86_400.0  # seconds in which a worker host may come back


class Ledger:
    """Limits and use, read by a single query; grants of this transaction are added to the use."""

    def __init__(self, tx: Transaction, now: float) -> None:
        self.nominal: dict[str, int] = {}
        self.owners: dict[str, str | None] = {}
        self.used: dict[str, int] = {}
        self.spent: dict[str, int] = {}  # the part of `used` that never comes back
        self.stopped: dict[str, str] = {}  # agents that must not start, with the reasons
        self.untested: set[str] = set()  # runs whose base has to pass a check first
        self.workers: dict[str, PresentWorker] = {}
        self.held_up: Bypassed | None = None
        self.due: float | None = None
        self.runs_wait = False
        self.drained: float | None = None  # when admissions were stopped
        self.fence = 0
        turns: list[tuple[int, str]] = []
        repos: dict[str, frozenset[str]] = {}
        labels: dict[str, frozenset[str]] = {}
        unable: dict[str, frozenset[str]] = {}  # agents whose programs a worker lacks
        penalties: dict[str, provider_pressure.Penalty] = {}
        for row in tx.all("ledger", turns=tx.tuning.in_a_row):
            kind, name, amount = row["kind"], row["name"], row["amount"]
            if kind == "limit":
                self.nominal[name] = amount
                self.owners[name] = row["text"]
            elif kind == "worker":
                agents = None if row["more"] is None else row_records.names(row["more"])
                if agents and not amount and (lacking := row_records.unable(row["more"])):
                    unable[name] = lacking
                self.workers[name] = (
                    PresentWorker(id=name, host="", agents=agents, member=True)
                    if amount
                    else PresentWorker(id=name, host=row["text"], agents=agents)
                )
            elif kind in ("used", "spent"):
                self.used[name] = self.used.get(name, 0) + amount
                if kind == "spent":
                    self.spent[name] = amount
            elif kind == "penalty":
                penalties[name] = provider_pressure.Penalty(
                    level=amount, since=row["at"], successes=row["other"]
                )
            elif kind == "stopped":
                self.stopped[name] = row["text"]
            elif kind == "repos":
                repos[name] = frozenset(row_records.files(row["text"]))
            elif kind == "labels":
                labels[name] = row_records.names(row["text"])
            elif kind == "held_up":
                self.held_up = Bypassed(task=amount, since=row["other"], reserved=bool(row["at"]))
            elif kind == "turn":
                turns.append((-amount, name))
            elif kind == "fence":
                self.fence = amount or 0
            elif kind == "due":
                if row["at"] is not None:
                    self.due = row["at"] if self.due is None else min(self.due, row["at"])
            elif kind == "untested":
                self.untested.add(name)
            elif kind == "drained":
                self.drained = row["at"]
            else:
                self.runs_wait = True
        for name in repos:
            self.workers[name] = replace(self.workers[name], repos=repos[name])
        for name in labels:
            self.workers[name] = replace(self.workers[name], labels=labels[name])
        self._leave_to_able(tx, unable, now)
        self.yielding = must_yield([tenant for _, tenant in sorted(turns)], tx.tuning)
        self.penalties = penalties
        self.effective = self._after_penalties(tx, now) if penalties else self.nominal
        if self.stopped:
            self.effective = {**self.effective, **{f"agent:{agent}": 0 for agent in self.stopped}}
            for agent in self.stopped:
                self.nominal.setdefault(f"agent:{agent}", capacity.MOST)

        if self.untested:
            none = {f"run:{run}/agents": 0 for run in self.untested}
            self.effective = {**self.effective, **none}

    def _leave_to_able(
        self, tx: Transaction, unable: Mapping[str, frozenset[str]], now: float
    ) -> None:
        """Take agents without their programs from a worker, where another worker has them, or a
        host had them that left not long ago.

        Without such a worker the attempt fails, and its reason names the missing program.
        """
        for name, agents in unable.items():
            worker = self.workers[name]
            assert worker.agents is not None
            repos = worker.repos or frozenset()
            left = {
                agent
                for agent in agents
                for repo in repos
                for peer in self.workers.values()
                if agent not in unable.get(peer.id, ()) and peer.can_run(frozenset({agent}), repo)
            }
            if agents - left:
                for row in tx.all("hosts_that_left", since=now - _AWAITED):
                    if repos & row_records.names(row["repos"]):
                        left |= agents & row_records.names(row["agents"])
            self.workers[name] = replace(worker, agents=worker.agents - left)

    def worker(self, worker: str) -> PresentWorker:
        try:
            return self.workers[worker]
        except KeyError:
            raise NotFound(f"There is no worker {worker}; register it first.") from None

    def _after_penalties(self, tx: Transaction, now: float) -> dict[str, int]:
        effective = dict(self.nominal)
        for provider, penalty in self.penalties.items():
            name = f"provider:{provider}"
            base = self.nominal.get(name, self.nominal.get("llm"))
            level = provider_pressure.level(penalty, now, tx.tuning)
            if base is not None and level:
                self.nominal.setdefault(name, base)  # shown as a limit while the penalty lasts
                effective[name] = provider_pressure.effective(base, level)
        return effective

    def next_fence(self) -> int:
        """Return a fence never given before, not even by a store that has forgotten leases.

        Its count grows: leases are never deleted, and there is a single writer. Its nonce is
        random: after a restored backup or a failover the count may repeat, the fence does not.
        """
        count = (self.fence >> NONCE_BITS) + 1
        self.fence = count << NONCE_BITS | int.from_bytes(os.urandom(3))
        return self.fence

    def enter(self, demand: Mapping[str, int]) -> None:
        """Add a grant of this transaction to the use."""
        for name, amount in demand.items():
            self.used[name] = self.used.get(name, 0) + amount


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
        host=ledger.worker(worker).host,
        task=task,
        attempt=attempt,
    )
    write_lease(tx, lease, encode(dict(costs)))
    return lease.fence


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


def require_holder(tx: Transaction, fence: int, holder: str, *, kind: str = "gate") -> Row:
    """Return the open lease of a gate, check or projection; raise `StaleFence` if this fence does
    not hold it."""
    lease = tx.one("lease", fence=fence)
    held = None if lease is None else (lease["kind"], lease["holder"])
    if lease is None or held != (kind, holder) or lease["state"] == "released":
        raise StaleFence(f"Fence {fence} does not hold the {kind} of run {holder}.")
    return lease


def is_wanted(order: Row) -> bool:
    """Tell whether a gate still waits for the check of an order."""
    return order["state"] == "open" and order["gate_state"] in ("held", "suspect")
