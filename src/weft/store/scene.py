"""What an admission decides over: read once, then only looked at.

A candidate is a task, or a whole gang, with everything it would take. The scene answers
whether a candidate fits, and if not, what is in its way.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from msgspec import Struct

from weft.model import HERE, Demand, State
from weft.paths import conflicts
from weft.policy import capacity, fairness, order
from weft.policy.capacity import Shortage
from weft.store import records
from weft.store.claims import Claims, family, wanted_by
from weft.store.database import Row, Transaction
from weft.store.ledger import Ledger, Place


class Candidate(Struct, frozen=True, kw_only=True):
    rows: Sequence[Row]  # the best first; more than one only for a gang
    repo: str
    run: str | None
    tenant: str
    demand: Mapping[str, int]  # of all together, `@` unresolved
    files: tuple[str, ...]
    agents: frozenset[str]  # those its place must be able to run
    pinned: str | None
    rank: order.Rank

    @property
    def task(self) -> int:
        return int(self.rows[0]["id"])

    def demand_at(self, place: Place) -> Mapping[str, int]:
        if len(self.rows) == 1:
            return records.placed_demand(self.rows[0]["demand"], place.worker, place.host)[0]
        return capacity.resolve(self.demand, place.worker, place.host)

    @property
    def stories(self) -> set[int]:
        return {row["story"] for row in self.rows if row["story"] is not None}

    @property
    def own(self) -> set[int]:
        """Tasks whose claims do not stand in its way: its own, and its story's."""
        return {row[key] for row in self.rows for key in ("id", "story") if row[key] is not None}


def candidate(tx: Transaction, row: Row, its_rank: order.Rank) -> Candidate | None:
    """The candidate a ready row stands for; None if its gang cannot start as a whole."""
    rows: Sequence[Row] = [row]
    demand = records.demand(row["demand"])
    files = records.files(row["files"])
    pinned = row["pinned"]
    if row["gang"] is not None:
        rows = tx.all("gang_members", gang=row["gang"])
        pins = {one["pinned"] for one in rows} - {None}
        if any(one["state"] != State.READY for one in rows) or len(pins) > 1:
            return None
        pinned = next(iter(pins), None)
        rows = sorted(rows, key=lambda one: one["id"] != row["id"])
        demand = capacity.add(*(records.demand(one["demand"]) for one in rows))
        files = tuple({file for one in rows for file in records.files(one["files"])})
    return Candidate(
        rows=rows,
        repo=row["repo"],
        run=row["run"],
        tenant=row["tenant"],
        demand=demand,
        files=files,
        agents=frozenset(one["agent"] for one in rows if one["agent"] is not None),
        pinned=pinned,
        rank=its_rank,
    )


def rank(tx: Transaction, row: Row, now: float) -> order.Rank:
    entry = order.Entry(
        id=row["id"],
        klass=row["class"],
        priority=row["priority"],
        path_seconds=row["path_seconds"],
        submitted=row["submitted"],
    )
    return order.rank(entry, now, tx.tuning)


class Scene:
    """Limits, use, claims and whoever has been passed over, in one transaction."""

    def __init__(self, tx: Transaction, now: float) -> None:
        self.now = now
        self.reserved_row: Row | None = None
        self._tx = tx
        self._families: dict[int, Sequence[Row]] = {}
        self.ledger = Ledger(tx, now)
        self.claims = Claims(tx)
        self.held_up = self.ledger.held_up
        self.reserved = self._reserved(tx)

    def shortages(self, who: Candidate, place: Place) -> list[Shortage]:
        """What a candidate would lack at a place, counting what is kept free for another."""
        demand = who.demand_at(place)
        return capacity.shortages(demand, self.ledger.effective, self._taken(who, place))

    def shortages_of(self, demand: Demand) -> list[Shortage]:
        """What somebody other than a task would lack: a gate, a check, more for an attempt.

        What is kept free for a task counts as taken unless that task waits for files: they may
        be those of a task whose check this is.
        """
        used: Mapping[str, int] = self.ledger.used
        if self.reserved is not None and not self._claimed(self.reserved):
            kept = self._kept_free(self.reserved, self._home(self.reserved))
            used = capacity.add(used, kept)
        return capacity.shortages(demand, self.ledger.effective, used)

    def _taken(self, who: Candidate, place: Place) -> Mapping[str, int]:
        if self.reserved is None or self._goes_before_reserved(who):
            return self.ledger.used
        return capacity.add(self.ledger.used, self._kept_free(self.reserved, place))

    def _goes_before_reserved(self, who: Candidate) -> bool:
        """Whether what is kept free is free for this candidate all the same.

        It is for the one it is kept for, and for a task that goes on with files it or its story
        holds: the other may be waiting for just these, and neither would ever start.
        """
        assert self.reserved is not None
        return self.reserved.task in who.own or self.claims.any_held_by(who.repo, who.own)

    def _kept_free(self, who: Candidate, place: Place) -> Mapping[str, int]:
        """What is kept free for a candidate: places only where it could ever go."""
        if who.pinned in self.ledger.places:
            place = self.ledger.places[who.pinned]
        demand = who.demand_at(place)
        if place.can_run(who.agents, who.repo, who.tenant) and not capacity.shortages(
            demand, self.ledger.nominal, {}
        ):
            return demand
        return capacity.shared(who.demand)

    def held_files(self, who: Candidate) -> dict[str, int]:
        """The held patterns in a candidate's way, and who holds or is to get them."""
        held = self._claimed(who)
        if self.reserved is None or self._goes_before_reserved(who):
            return held
        return self.kept_files(who.repo, self._wanted(who)) | held

    def _claimed(self, who: Candidate) -> dict[str, int]:
        held = self.claims.held(who.repo, who.files, own=who.own)
        for story in who.stories:
            if not self.claims.any_held_by(who.repo, [story]):  # it is to hold all, or nothing
                kin = {row["id"] for row in self._family(story)}
                held |= self.claims.held(who.repo, wanted_by(self._family(story)), own=kin)
        return held

    def _wanted(self, who: Candidate) -> Sequence[str]:
        """Its files, and those its story would take with them."""
        families = (wanted_by(self._family(story)) for story in who.stories)
        return [*who.files, *itertools.chain.from_iterable(families)]

    def _family(self, story: int) -> Sequence[Row]:
        if story not in self._families:
            self._families[story] = family(self._tx, story)
        return self._families[story]

    def kept_files(self, repo: str, files: Sequence[str]) -> dict[str, int]:
        """Patterns kept free for somebody else that these files run into."""
        other = self.reserved
        if other is None or other.repo != repo:
            return {}
        return {
            pattern: other.task
            for pattern in self._wanted(other)
            if any(conflicts(pattern, file) for file in files)
        }

    def may_reserve(self, who: Candidate, place: Place) -> bool:
        """Whether keeping capacity free for a candidate would ever help it."""
        if not any(self._could_go(who, one) for one in self.ledger.places.values()):
            return False
        holders = set(self._claimed(who).values())
        rows = (self._tx.one("task", id=one) for one in sorted(holders))
        if any(row is not None and row["state"] in (State.PAUSED, State.WAITING) for row in rows):
            return False  # its files come free when a person or other tasks let them
        demand = who.demand_at(place)
        return fairness.may_reserve(
            capacity.shortages(demand, self.ledger.effective, self.ledger.used),
            nominal=self.ledger.nominal,
            run=who.run,
            pinned_away=who.pinned is not None and who.pinned not in self.ledger.places,
        )

    def _could_go(self, who: Candidate, place: Place) -> bool:
        """Whether a candidate would fit at a place if nothing else ran."""
        return (
            who.pinned in (None, place.worker)
            and place.can_run(who.agents, who.repo, who.tenant)
            and not capacity.shortages(who.demand_at(place), self.ledger.nominal, {})
        )

    def _reserved(self, tx: Transaction) -> Candidate | None:
        """The candidate for which capacity is kept free, if there is one."""
        if self.held_up is None or not self.held_up.reserved:
            return None
        row = tx.one("task", id=self.held_up.task)
        if row is None or row["state"] != State.READY:
            return None
        who = candidate(tx, row, rank(tx, row, self.now))
        # What began to wait for something nobody can make room in stops others no longer.
        if who is None or not self.may_reserve(who, self._home(who)):
            return None
        return who

    def _home(self, who: Candidate) -> Place:
        """A place to judge a candidate at: the one it is pinned to, or none in particular."""
        nowhere = Place(worker=HERE, host=HERE, agents=None)
        return self.ledger.places.get(who.pinned, nowhere) if who.pinned else nowhere
