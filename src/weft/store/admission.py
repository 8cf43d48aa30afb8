"""Admission: the only transaction that starts a task.

It picks the best task that fits and grants, all or nothing, every amount and every file claim the
task needs, under a new fence. Use is summed from the open leases and claims are read inside the
transaction, and there is a single writer at a time; so no limit is ever exceeded and no file is
ever held twice.

    read    limits, use, claims, the latest turns, the best task of each bucket
    decide  with `weft.admission`: order, tenants' turns, shortages, bypassed tasks
    write   lease, amounts, claims, attempt, state, event
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from weft.admission import capacity, fairness
from weft.errors import NotFound
from weft.model import Demand, Grant, State
from weft.store import ready, row_records
from weft.store.admission_rows import AdmissionRows, ReadyTask, candidate, concerns, is_able, rank
from weft.store.claims import bring_back, claim_for_story
from weft.store.database import Row, Transaction, encode
from weft.store.entrants import fill_team, open_team
from weft.store.lease_rows import NewLease, write_lease
from weft.store.ledger import PoolPlace
from weft.store.runs import start_waiting
from weft.store.store import writes
from weft.store.team_rows import is_entrant, waits_in_team

_MOST_SKIPPED: Final = 256
"""Most tasks of a bucket that are examined at each admission although they wait for their turn."""

_PAGE: Final = 32
"""Tasks of a bucket that are read at once after its best; each further page is larger."""


@writes
def admit(tx: Transaction, worker: str, *, now: float) -> list[Grant]:
    """Start the best task this worker can take; a gang gives several grants at once.

    Empty means that no task is admissible for this worker now.
    """
    scene = _look(tx, now)
    place = scene.ledger.place(worker)
    if scene.ledger.drained is not None:
        return []
    yielding = scene.ledger.yielding
    rows = scene.buckets
    bests = _with_reserved(scene, [row for row in rows if row["aside"] is None])
    first = [row for row in bests if row["tenant"] != yielding]
    chosen, held_up = _choose(tx, scene, place, first)
    if chosen is None and len(first) < len(bests):
        rest = [row for row in bests if row["tenant"] == yielding]
        chosen, also_held_up = _choose(tx, scene, place, rest)
        held_up = _better(held_up, also_held_up)
    if chosen is None:
        return []
    grants = _grant(tx, scene, place, chosen)
    asides = [row for row in rows if row["aside"] is not None]
    held_up = _first_held_up(tx, scene, place, held_up, asides)
    _note_bypass(tx, scene, chosen, held_up, grants[0].fence)
    return grants


@writes
def admit_task(tx: Transaction, worker: str, task: int, *, now: float) -> list[Grant]:
    """Start a named task (and its gang) if it is admissible now, in any place of the order.

    Plan order does not hold it back either: the caller has decided the order by naming it.
    """
    scene = _look(tx, now)
    row = tx.one("task", id=task)
    if row is None:
        raise NotFound(f"There is no task {task}.")
    place = scene.ledger.place(worker)
    who = candidate(tx, row, rank(tx, row, now)) if row["state"] == State.READY else None
    if who is None or not concerns(who, place) or scene.shortages(who, place):
        return []
    if scene.ledger.drained is not None:
        return []
    if scene.held_files(who) or _must_wait_its_turn(tx, scene, place, who):
        return []
    rows = [row for row in tx.all("buckets") if row["id"] not in who.own]
    _, held_up = _choose(tx, scene, place, [row for row in rows if row["aside"] is None])
    asides = [row for row in rows if row["aside"] is not None]
    held_up = _first_held_up(tx, scene, place, held_up, asides)
    grants = _grant(tx, scene, place, who)
    _note_bypass(tx, scene, who, held_up, grants[0].fence)
    return grants


def _look(tx: Transaction, now: float) -> AdmissionRows:
    """Wake the tasks that are due, then read the rows."""
    scene = AdmissionRows(tx, now)
    if scene.ledger.runs_wait or (scene.ledger.due is not None and scene.ledger.due <= now):
        ready.wake_due(tx, now=now)
        start_waiting(tx, now=now)
        scene = AdmissionRows(tx, now)
    if scene.held_up is not None and scene.held_up.reserved and scene.reserved is None:
        # Reserving no longer helps it; tasks set aside for it may start.
        tx.run("drop_reservation", task=scene.held_up.task)
        bring_back(tx, scene.held_up.task)
        scene.held_up = None
    return scene


def _share_bucket(tx: Transaction, row: Row, ahead: Mapping[str, int]) -> bool:
    """Tell whether a task and the task ahead of it make the same demand, so that a single test
    serves both."""
    earlier = tx.one("task", id=min(ahead.values()))
    return earlier is not None and bool(earlier["bucket"] == row["bucket"])


def _must_wait_its_turn(
    tx: Transaction, scene: AdmissionRows, place: PoolPlace, who: ReadyTask
) -> bool:
    """Tell whether a task's tenant has had its turns while another tenant's task could start."""
    if who.tenant != scene.ledger.yielding:
        return False
    bests = [row for row in scene.buckets if row["tenant"] != who.tenant and row["aside"] is None]
    return _choose(tx, scene, place, bests)[0] is not None


def _choose(
    tx: Transaction, scene: AdmissionRows, place: PoolPlace, bests: Sequence[Row]
) -> tuple[ReadyTask | None, ReadyTask | None]:
    """Return the first task in order that can be admitted, and the first before it that cannot.

    `bests` has the best task of each bucket. A task that only waits for its turn in the plan does
    not count as held up: a reservation would not help it.
    """
    chosen = held_up = None
    asides: list[dict[str, int]] = []
    skipped: Counter[str] = Counter()  # by bucket, the tasks that wait for their turn
    buckets = {row["id"]: _walk(tx, row) for row in bests}
    heap = [(rank(tx, row, scene.now), row["id"], row) for row in bests]
    heapq.heapify(heap)
    while heap and chosen is None:
        its_rank, best, row = heapq.heappop(heap)
        who = candidate(tx, row, its_rank)
        if who is None or not is_able(place, who):
            continue
        home = scene.ledger.places.get(who.pinned, place) if who.pinned else place
        if scene.shortages(who, home):
            # The whole bucket asks for the same, so none of it can start.
            if held_up is None and scene.may_reserve(who, home):
                held_up = who
            continue
        if not concerns(who, place):
            continue  # its pinned worker can take it at once
        held = scene.held_files(who)
        ahead = {} if held else scene.find_ahead(who)
        if not held and not ahead:
            chosen = who
            break
        if held and held_up is None and scene.may_reserve(who, home):
            held_up = who
        if row is scene.reserved_row:
            continue  # it is among the bests in addition to the best of its bucket
        if held:
            asides += [{"id": member["id"], "holder": min(held.values())} for member in who.rows]
        elif len(who.rows) == 1 and _share_bucket(tx, row, ahead):
            asides.append({"id": row["id"], "holder": min(ahead.values())})
        else:
            # The other task makes another demand, so each admission tests again if it goes first.
            skipped[row["bucket"]] += 1
            if skipped[row["bucket"]] == _MOST_SKIPPED:
                continue
        follower = next(buckets[best], None)
        if follower is not None:
            heapq.heappush(heap, (rank(tx, follower, scene.now), best, follower))
    if asides:
        tx.many("set_aside", asides)
    return chosen, held_up


def _walk(tx: Transaction, best: Row) -> Iterator[Row]:
    """Read the tasks of a bucket after its best in order, as they stood at the first call."""
    passed, most = 1, _PAGE
    while rows := tx.all("next_in_bucket", bucket=best["bucket"], passed=passed, most=most):
        yield from rows
        passed, most = passed + most, most * _PAGE


def _with_reserved(scene: AdmissionRows, bests: Sequence[Row]) -> list[Row]:
    """Add the task that capacity is kept free for, though it may not be the best of its bucket."""
    if scene.reserved is None or any(row["id"] == scene.reserved.task for row in bests):
        return list(bests)
    scene.reserved_row = scene.reserved.rows[0]
    return [*bests, scene.reserved_row]


def _better(first: ReadyTask | None, second: ReadyTask | None) -> ReadyTask | None:
    if first is None or second is None:
        return first or second
    return min(first, second, key=lambda who: who.rank)


def _note_bypass(
    tx: Transaction,
    scene: AdmissionRows,
    admitted: ReadyTask,
    held_up: ReadyTask | None,
    fence: int,
) -> None:
    """Record the first task in order that is held up; after enough admissions, reserve for it."""
    previous = scene.held_up
    if previous is not None and previous.task in {row["id"] for row in admitted.rows}:
        tx.run("drop_reservation", task=previous.task)
        if len(admitted.rows) > 1:  # from now on each member of the gang holds its own files
            bring_back(tx, previous.task)
        previous = None
    # Only a task ranked before the admitted task was bypassed.
    ahead = held_up is not None and held_up.rank < admitted.rank
    first = held_up.task if held_up is not None and ahead else None
    if previous is not None and held_up is not None and first not in (None, previous.task):
        row = tx.one("task", id=previous.task)
        # Not every worker and turn sees it; it stays first until a better task is held up.
        if row is not None and rank(tx, row, scene.now) < held_up.rank:
            first = previous.task
    current = fairness.bypassed(previous, first, fence)
    if current is not None and not current.reserved:
        passed = tx.value("turns_since", fence=current.since)
        current = replace(current, reserved=passed >= tx.tuning.bypasses)
        if current.reserved:
            tx.event("capacity_reserved", now=scene.now, task=current.task)
    if current is not None and current != scene.held_up:
        tx.run("set_reservation", task=current.task, since=current.since, reserved=current.reserved)


def _first_held_up(
    tx: Transaction,
    scene: AdmissionRows,
    place: PoolPlace,
    held_up: ReadyTask | None,
    asides: Sequence[Row],
) -> ReadyTask | None:
    """Return the first held-up task in order, tasks set aside earlier included."""
    for row in asides:
        who = candidate(tx, row, rank(tx, row, scene.now))
        if (
            who is not None
            and is_able(place, who)
            and scene.held_files(who)  # otherwise it is aside until its turn in the plan
            and scene.may_reserve(who, place)
        ):
            held_up = _better(held_up, who)
    return held_up


def _grant(tx: Transaction, scene: AdmissionRows, place: PoolPlace, who: ReadyTask) -> list[Grant]:
    return [
        _grant_one(tx, scene, place, row, turn=who.tenant if number == 0 else None)
        for number, row in enumerate(who.rows)
    ]


def _grant_one(
    tx: Transaction, scene: AdmissionRows, place: PoolPlace, row: Row, *, turn: str | None
) -> Grant:
    task: int = row["id"]
    contends = is_entrant(row)
    opens = contends and not waits_in_team(row)
    if opens:
        asked = encode(dict(open_team(tx, scene.ledger, row, now=scene.now)))
    else:
        asked = row["demand"]
    demand, costs = row_records.placed_demand(asked, place.worker, place.host)
    files = row_records.files(row["files"])
    number = row["attempt"] + 1
    deadline = scene.now + tx.tuning.lease
    units = _pick_units(tx, demand)
    fence = scene.ledger.next_fence()
    lease = NewLease(
        fence=fence,
        kind="attempt",
        holder=row["name"],
        granted=scene.now,
        deadline=deadline,
        worker=place.worker,
        host=place.host,
        task=task,
        attempt=number,
        turn=turn,
    )
    write_lease(tx, lease, costs)
    for resource, numbers in units.items():
        for unit in numbers:
            tx.run("add_unit", resource=resource, unit=unit, fence=fence)
    if files:  # a team holds its files once
        holder = row["story"] if contends else task
        tx.run("add_claims", task=holder, repo=row["repo"], patterns=row["files"])
    if row["story"] is not None and not scene.claims.any_held_by(row["repo"], [row["story"]]):
        claim_for_story(tx, row["repo"], row["story"])
    tx.run(
        "add_attempt",
        task=task,
        number=number,
        fence=fence,
        worker=place.worker,
        agent=row["agent"],
        stage=row["stage"],
        started=scene.now,
    )
    tx.run("start_task", id=task, now=scene.now, attempt=number)
    ready.drop_ready_files(tx, row)
    tx.event("task_admitted", row, now=scene.now, fence=fence, attempt=number, worker=place.worker)
    if opens:
        fill_team(tx, row["story"], now=scene.now)
    return Grant(
        fence=fence,
        task=task,
        name=row["name"],
        run=row["run"],
        attempt=number,
        worker=place.worker,
        agent=row["agent"],
        stage=row["stage"],
        deadline=deadline,
        demand=demand,
        files=files,
        units=units,
    )


def _pick_units(tx: Transaction, demand: Demand) -> dict[str, tuple[int, ...]]:
    """Pick unit numbers for numbered resources; the amounts are known to fit."""
    units = {}
    for resource, amount in demand.items():
        if capacity.has_units(resource):
            taken = [row["unit"] for row in tx.all("units_taken", resource=resource)]
            units[resource] = capacity.pick_units(amount, taken)
    return units


@writes
def drain(tx: Transaction, *, now: float) -> bool:
    """Stop all admissions, on every host; return False if they were stopped already.

    Running attempts continue, and the gate continues to land.
    """
    if tx.value("drained") is not None:
        return False
    tx.run("set_drained", since=now)
    tx.event("drained", now=now)
    return True


@writes
def undo_drain(tx: Transaction, *, now: float) -> bool:
    """Admit again; return False if admissions were not stopped."""
    if tx.value("drained") is None:
        return False
    tx.run("set_drained", since=None)
    tx.event("drain_undone", now=now)
    tx.wake()
    return True
