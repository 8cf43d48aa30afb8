"""The rows that an admission decides on, read once.

`ReadyTask` is a ready task, or a whole gang, with all it would take. `AdmissionRows` tells
whether it fits, and if not, its obstacle: a limit, a held file, or a ready task of the same run
that shares a file with it and comes earlier in the plan.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from weft.admission import capacity, fairness, order
from weft.admission.capacity import Shortage
from weft.model import HERE, Demand, State
from weft.paths import conflicts
from weft.store import row_records
from weft.store.claims import Claims, family, wanted_by
from weft.store.database import Row, Transaction, encode
from weft.store.ledger import Ledger, PoolPlace
from weft.store.ready import path_of
from weft.store.team_rows import waits_in_team

_MOST_PASSED: Final = 256
"""Most earlier tasks that are examined although they wait for another reason."""


class ReadyTask(Struct, frozen=True, kw_only=True):
    rows: Sequence[Row]  # the best first; several rows only for a gang
    repo: str
    run: str | None
    tenant: str
    demand: Mapping[str, int]  # total, `@` unresolved
    files: tuple[str, ...]
    agents: frozenset[str]  # agents that its worker must be able to run
    labels: frozenset[str]  # labels that its worker must have
    pinned: str | None
    rank: order.Rank

    @property
    def task(self) -> int:
        return int(self.rows[0]["id"])

    def demand_at(self, place: PoolPlace) -> Mapping[str, int]:
        if len(self.rows) == 1:
            return row_records.placed_demand(self.rows[0]["demand"], place.worker, place.host)[0]
        return capacity.resolve(self.demand, place.worker, place.host)

    @property
    def stories(self) -> set[int]:
        return {row["story"] for row in self.rows if row["story"] is not None}

    @property
    def own(self) -> set[int]:
        """Tasks whose claims do not exclude it: its own, and its story's."""
        return {row[key] for row in self.rows for key in ("id", "story") if row[key] is not None}


def candidate(tx: Transaction, row: Row, its_rank: order.Rank) -> ReadyTask | None:
    """Read the ready task of a row; return None if its gang cannot start as a whole."""
    rows: Sequence[Row] = [row]
    demand = row_records.demand(row["demand"])
    labels = row_records.labels(row["demand"])
    files = row_records.files(row["files"])
    pinned = row["pinned"]
    if row["gang"] is not None:
        rows = tx.all("gang_members", gang=row["gang"])
        pins = {member["pinned"] for member in rows} - {None}
        if any(member["state"] != State.READY for member in rows) or len(pins) > 1:
            return None
        pinned = next(iter(pins), None)
        rows = sorted(rows, key=lambda member: member["id"] != row["id"])
        demand = capacity.add(*(row_records.demand(member["demand"]) for member in rows))
        labels = capacity.list_labels(demand)
        files = tuple({file for member in rows for file in row_records.files(member["files"])})
    return ReadyTask(
        rows=rows,
        repo=row["repo"],
        run=row["run"],
        tenant=row["tenant"],
        demand=demand,
        files=files,
        agents=frozenset(member["agent"] for member in rows if member["agent"] is not None),
        labels=labels,
        pinned=pinned,
        rank=its_rank,
    )


def rank(tx: Transaction, row: Row, now: float) -> order.Rank:
    return order.rank(row_records.queue_entry(row), now, tx.tuning)


class AdmissionRows:
    """Limits, use, claims and the reservation, as a transaction sees them."""

    def __init__(self, tx: Transaction, now: float) -> None:
        self.now = now
        self.reserved_row: Row | None = None
        self._tx = tx
        self._families: dict[int, Sequence[Row]] = {}
        self._room: dict[str, bool] = {}  # by bucket: whether a worker could start a task of it now
        self.ledger = Ledger(tx, now)
        self.claims = Claims(tx)
        self.held_up = self.ledger.held_up
        self.reserved = self._reserved(tx)

    @functools.cached_property
    def buckets(self) -> Sequence[Row]:
        """The best task of each bucket that is not set aside, and the best that is."""
        return self._tx.all("buckets")

    def shortages(self, who: ReadyTask, place: PoolPlace) -> list[Shortage]:
        """List the shortages of a task at a worker; capacity kept free for another task counts as
        used."""
        demand = who.demand_at(place)
        return capacity.shortages(demand, self.ledger.effective, self._taken(who, place))

    def shortages_of(self, demand: Demand) -> list[Shortage]:
        """List the shortages of a gate, a check, or more budget for an attempt.

        Capacity kept free for a task counts as used unless that task waits for files: this may be
        the check of the task that holds them.
        """
        used: Mapping[str, int] = self.ledger.used
        if self.reserved is not None and not self._claimed(self.reserved):
            kept = self._kept_free(self.reserved, self._home(self.reserved))
            used = capacity.add(used, kept)
        return capacity.shortages(demand, self.ledger.effective, used)

    def _taken(self, who: ReadyTask, place: PoolPlace) -> Mapping[str, int]:
        if self.reserved is None or self._goes_before_reserved(who):
            return self.ledger.used
        return capacity.add(self.ledger.used, self._kept_free(self.reserved, place))

    def _goes_before_reserved(self, who: ReadyTask) -> bool:
        """Tell whether a task may use reserved capacity.

        The reserving task may. So may a task that continues with files it or its story holds: the
        reserving task may be waiting for these files, and neither would ever start. So may an
        earlier task of the same run: the reserving task may be waiting for its turn behind it.
        """
        assert self.reserved is not None
        return (
            self.reserved.task in who.own
            or self.claims.any_held_by(who.repo, who.own)
            or self._comes_before(who, self.reserved)
        )

    def _comes_before(self, who: ReadyTask, later: ReadyTask) -> bool:
        """Tell whether a task is an earlier task of the same run as `later`."""
        return who.run is not None and who.run == later.run and self._turn(who) < self._turn(later)

    def _kept_free(self, who: ReadyTask, place: PoolPlace) -> Mapping[str, int]:
        """Return the capacity kept free for a task: of a worker only where it could ever run."""
        if who.pinned in self.ledger.places:
            place = self.ledger.places[who.pinned]
        demand = who.demand_at(place)
        if is_able(place, who) and not capacity.shortages(demand, self.ledger.nominal, {}):
            return demand
        return capacity.shared(who.demand)

    def held_files(self, who: ReadyTask) -> dict[str, int]:
        """Map the held patterns that exclude a task to the tasks that hold or reserve them."""
        held = self._claimed(who)
        if self.reserved is None or self._goes_before_reserved(who):
            return held
        return self.kept_files(who.repo, self._wanted(who)) | held

    def _claimed(self, who: ReadyTask) -> dict[str, int]:
        held = self.claims.held(who.repo, who.files, own=who.own)
        for story in who.stories:
            if not self.claims.any_held_by(
                who.repo, [story]
            ):  # a story holds all files of its subtasks, or none
                kin = {row["id"] for row in self._family(story)}
                held |= self.claims.held(who.repo, wanted_by(self._family(story)), own=kin)
        return held

    def is_stalled(self, who: ReadyTask) -> bool:
        return self.claims.any_stalled(who.repo) and not self.claims.stalled.isdisjoint(
            self._claimed(who).values()
        )

    def find_ahead(self, who: ReadyTask) -> dict[str, int]:
        """Find a ready task that goes before this task by plan order; map its patterns to it.

        Tasks of a run that share a file go by urgency, then in plan order. A task may be passed if
        it lacks a limit, a worker or the rest of its gang, or waits for a stalled task.
        """
        if who.run is None or self.claims.any_held_by(who.repo, {row["id"] for row in who.rows}):
            return {}
        among_kin = bool(who.stories) and self.claims.any_held_by(who.repo, who.stories)
        files = who.files if among_kin else self._wanted(who)
        for most in (1, _MOST_PASSED) if files else ():
            rows = self._tx.all(
                "ready_ahead",
                run=who.run,
                before=encode(self._numbers_before(who)),
                paths=encode(_paths(files)),
                most=most,
            )
            for row in rows:
                kin = row["story"] is not None and row["story"] in who.stories
                if among_kin and not kin:
                    continue
                ahead = _in_the_way(row, who.files if kin else files)
                if ahead and row["id"] not in who.own and self._holds_back(row):
                    return ahead
            if len(rows) < most:
                break
        return {}

    def _numbers_before(self, who: ReadyTask) -> dict[str, int]:
        """Map each class and priority (`1/2`) to the number below which its tasks go first."""
        own, first = self._turn(who)
        submitted = who.rows[0]["submitted"]
        numbers = {}
        # Only classes and priorities that ready tasks of the run have: each costs a search.
        for klass, priority in {
            (row["class"], row["priority"]) for row in self.buckets if row["run"] == who.run
        }:
            urgent = self._urgency(klass, priority, submitted)
            if urgent <= own:
                before = first if urgent == own else capacity.MOST
                numbers[f"{klass}/{priority}"] = before
        return numbers

    def _turn(self, who: ReadyTask) -> tuple[order.Urgency, int]:
        """Return the sort key of a task among those of its run that share a file with it."""
        return min(
            (self._urgency(row["class"], row["priority"], row["submitted"]), int(row["id"]))
            for row in who.rows
        )

    def _urgency(self, klass: int, priority: int, submitted: float) -> order.Urgency:
        return order.urgency(klass, priority, submitted, self.now, self._tx.tuning)

    def _holds_back(self, row: Row) -> bool:
        """Tell whether an earlier task waits only for files, and only of tasks that have not
        stalled."""
        bucket = row["bucket"]
        earlier = None
        if bucket not in self._room:
            earlier = candidate(self._tx, row, rank(self._tx, row, self.now))
            self._room[bucket] = earlier is not None and any(
                concerns(earlier, place) and not self.shortages(earlier, place)
                for place in self.ledger.places.values()
            )
        if not self._room[bucket]:
            return False
        if not self.claims.any_stalled(row["repo"]):
            return True
        earlier = earlier or candidate(self._tx, row, rank(self._tx, row, self.now))
        return earlier is not None and not self.is_stalled(earlier)

    def _wanted(self, who: ReadyTask) -> Sequence[str]:
        """List the files of a task, and those its story would claim with them."""
        families = (wanted_by(self._family(story)) for story in who.stories)
        return [*who.files, *itertools.chain.from_iterable(families)]

    def _family(self, story: int) -> Sequence[Row]:
        if story not in self._families:
            self._families[story] = family(self._tx, story)
        return self._families[story]

    def kept_files(self, repo: str, files: Sequence[str]) -> dict[str, int]:
        """Map the patterns kept free for another task that these files conflict with to that
        task."""
        reserving = self.reserved
        if reserving is None or reserving.repo != repo:
            return {}
        return {
            pattern: reserving.task
            for pattern in self._wanted(reserving)
            if any(conflicts(pattern, file) for file in files)
        }

    def may_reserve(self, who: ReadyTask, place: PoolPlace) -> bool:
        """Tell whether keeping capacity free for a task would ever help it.

        An entrant of a team at work never keeps capacity from other tasks.
        """
        if any(waits_in_team(row) for row in who.rows):
            return False
        if not any(self._could_go(who, place) for place in self.ledger.places.values()):
            return False
        holders = set(self._claimed(who).values())
        rows = (self._tx.one("task", id=holder) for holder in sorted(holders))
        if any(row is not None and row["state"] in (State.PAUSED, State.WAITING) for row in rows):
            return False  # a person or other tasks decide when its files come free
        demand = who.demand_at(place)
        return fairness.may_reserve(
            capacity.shortages(demand, self.ledger.effective, self.ledger.used),
            nominal=self.ledger.nominal,
            run=who.run,
            pinned_away=who.pinned is not None and who.pinned not in self.ledger.places,
        )

    def _could_go(self, who: ReadyTask, place: PoolPlace) -> bool:
        """Tell whether a task would fit at a worker without other work."""
        return (
            who.pinned in (None, place.worker)
            and is_able(place, who)
            and not capacity.shortages(who.demand_at(place), self.ledger.nominal, {})
        )

    def _reserved(self, tx: Transaction) -> ReadyTask | None:
        """Return the task for which capacity is kept free."""
        if self.held_up is None or not self.held_up.reserved:
            return None
        row = tx.one("task", id=self.held_up.task)
        if row is None or row["state"] != State.READY:
            return None
        who = candidate(tx, row, rank(tx, row, self.now))
        # A task that no freed capacity can help stops other tasks no longer.
        if who is None or not self.may_reserve(who, self._home(who)):
            return None
        return who

    def _home(self, who: ReadyTask) -> PoolPlace:
        """Return the place to judge a task at: its pinned worker, or no worker in particular."""
        nowhere = PoolPlace(worker=HERE, host=HERE, agents=None)
        return self.ledger.places.get(who.pinned, nowhere) if who.pinned else nowhere


def concerns(who: ReadyTask, place: PoolPlace) -> bool:
    """Tell whether a worker may ever take a task."""
    return who.pinned in (None, place.worker) and is_able(place, who)


def is_able(place: PoolPlace, who: ReadyTask) -> bool:
    """Tell whether a worker could take a task, a pin aside."""
    return place.can_run(who.agents, who.repo, who.labels)


def _in_the_way(row: Row, files: Sequence[str]) -> dict[str, int]:
    """Return the patterns of a task that these files conflict with, each with the task."""
    return {
        own: row["id"]
        for own in row_records.files(row["files"])
        if any(conflicts(own, file) for file in files)
    }


def _paths(files: Sequence[str]) -> dict[str, int]:
    """Return the paths under which files that conflict with these are listed; 1 includes all paths
    beneath."""
    paths: dict[str, int] = {}
    for file in files:
        path = path_of(file)
        paths[path] = 1
        while path:
            path = path.rpartition("/")[0]
            paths.setdefault(path, 0)
    return paths
