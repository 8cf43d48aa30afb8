"""The ledger: limits, use and present workers, as a transaction sees them.

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
from weft.admission.fairness import Bypassed, must_yield
from weft.errors import NotFound
from weft.model import SWARM
from weft.store import row_records
from weft.store.database import Transaction

NONCE_BITS: Final = 24
"""The random part of a fence. The count above it stays exact in JavaScript up to 2**29 leases."""


class PoolPlace(Struct, frozen=True, kw_only=True):
    """A present worker, as admission sees it."""

    worker: str
    host: str
    agents: frozenset[str] | None  # the agents it can run; None: any
    repos: frozenset[str] | None = None  # the repositories it can work on; None: any
    labels: frozenset[str] = frozenset()
    member: bool = False  # of the swarm: takes only tasks that need no workspace

    def can_run(
        self,
        agents: frozenset[str],
        repo: str,
        labels: frozenset[str] = frozenset(),
    ) -> bool:
        """Tell whether this worker may ever take such a task."""
        if self.member != repo.startswith(SWARM):
            return False
        if self.repos is not None and repo not in self.repos:
            return False
        return labels <= self.labels and (self.agents is None or agents <= self.agents)


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
        self.places: dict[str, PoolPlace] = {}
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
                self.places[name] = (
                    PoolPlace(worker=name, host="", agents=agents, member=True)
                    if amount
                    else PoolPlace(worker=name, host=row["text"], agents=agents)
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
            self.places[name] = replace(self.places[name], repos=repos[name])
        for name in labels:
            self.places[name] = replace(self.places[name], labels=labels[name])
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
            place = self.places[name]
            assert place.agents is not None
            repos = place.repos or frozenset()
            left = {
                agent
                for agent in agents
                for repo in repos
                for peer in self.places.values()
                if agent not in unable.get(peer.worker, ())
                and peer.can_run(frozenset({agent}), repo)
            }
            if agents - left:
                for row in tx.all("hosts_that_left", since=now - _AWAITED):
                    if repos & row_records.names(row["repos"]):
                        left |= agents & row_records.names(row["agents"])
            self.places[name] = replace(place, agents=place.agents - left)

    def place(self, worker: str) -> PoolPlace:
        try:
            return self.places[worker]
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
