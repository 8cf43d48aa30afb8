"""Admission: the only transaction that starts a task.

It picks the first task in order that may start and grants, all or nothing, every amount and every
file claim the task needs, under a new fence. Use is summed from the open leases and claims are read
inside the transaction, and there is a single writer at a time; so no limit is ever exceeded and no
file is ever held twice.

    read    `admission_rows`: limits, use, claims, the latest turns, the best task of each bucket
    decide  `weft.admission.rule`
    write   lease, amounts, claims, attempt, state, event
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from weft.admission import capacity, rule
from weft.admission.rule import PresentWorker, ReadyTask
from weft.model import Demand, Grant, State
from weft.store import ready, row_records
from weft.store.admission_rows import AdmissionRows, ReadyQueue
from weft.store.claims import bring_back, claim_for_story
from weft.store.database import Row, Transaction, encode
from weft.store.entrants import fill_team, open_team
from weft.store.ledger import NewLease, write_lease
from weft.store.row_records import get_task_row
from weft.store.runs import start_waiting
from weft.store.store import writes
from weft.store.team_rows import is_entrant, waits_in_team


@writes
def admit(tx: Transaction, worker: str, *, now: float) -> list[Grant]:
    """Start the best task this worker can take; a gang gives several grants at once.

    Empty means that no task is admissible for this worker now.
    """
    rows = _read_rows(tx, now)
    place = rows.worker(worker)
    if rows.drained is not None:
        return []
    task, passed = _choose(tx, rows, place, rows.buckets)
    return [] if task is None else _grant(tx, rows, place, task, passed)


@writes
def admit_task(tx: Transaction, worker: str, task: int, *, now: float) -> list[Grant]:
    """Start a named task (and its gang) if it is admissible now, in any place of the order.

    Plan order does not hold it back either: the caller has decided the order by naming it.
    """
    rows = _read_rows(tx, now)
    row = get_task_row(tx, task)
    place = rows.worker(worker)
    if rows.drained is not None or row["state"] != State.READY:
        return []
    named = rows.read_task(row)
    obstacle = next(rule.find_obstacles(named, [place], rows), None)
    if obstacle is not None and obstacle.kind != "order":
        return []
    bests = [best for best in rows.buckets if best["id"] not in named.ids | named.stories]
    instead, passed = _choose(tx, rows, place, bests)
    had_its_turns = row["tenant"] == rows.yielding
    if had_its_turns and instead is not None and instead.rows[0]["tenant"] != row["tenant"]:
        return []
    return _grant(tx, rows, place, named, passed)


def _read_rows(tx: Transaction, now: float) -> AdmissionRows:
    """Wake the tasks that are due, then read the rows."""
    rows = AdmissionRows(tx, now)
    if rows.runs_wait or (rows.due is not None and rows.due <= now):
        ready.wake_due(tx, now=now)
        start_waiting(tx, now=now)
        rows = AdmissionRows(tx, now)
    if rows.held_up is not None and rows.held_up.reserved and rows.kept is None:
        # Reserving no longer helps it; tasks set aside for it may start.
        tx.run("drop_reservation", task=rows.held_up.task)
        bring_back(tx, rows.held_up.task)
        rows.held_up = None
    return rows


def _choose(
    tx: Transaction, rows: AdmissionRows, worker: PresentWorker, bests: Iterable[Row]
) -> tuple[ReadyTask | None, ReadyTask | None]:
    queue = ReadyQueue(tx, rows, list(bests))
    chosen = rule.choose(queue, worker, rows)
    queue.set_aside()
    return chosen


def _grant(
    tx: Transaction,
    rows: AdmissionRows,
    worker: PresentWorker,
    task: ReadyTask,
    passed: ReadyTask | None,
) -> list[Grant]:
    tenant = task.rows[0]["tenant"]
    grants = [
        _grant_one(tx, rows, worker, row, turn=tenant if number == 0 else None)
        for number, row in enumerate(task.rows)
    ]
    _note_bypass(tx, rows, task, passed, grants[0].fence)
    return grants


def _note_bypass(
    tx: Transaction,
    rows: AdmissionRows,
    admitted: ReadyTask,
    passed: ReadyTask | None,
    fence: int,
) -> None:
    """Record the first task in order that is held up; after enough admissions, reserve for it."""
    previous = rows.held_up
    if previous is not None and previous.task in admitted.ids:
        tx.run("drop_reservation", task=previous.task)
        if len(admitted.rows) > 1:  # from now on each member of the gang holds its own files
            bring_back(tx, previous.task)
        previous = None
    # Only a task ranked before the admitted task was bypassed.
    first = passed.id if passed is not None and passed.rank < admitted.rank else None
    if previous is not None and passed is not None and first not in (None, previous.task):
        row = tx.one("task", id=previous.task)
        # Not every worker and turn sees it; it stays first until a better task is held up.
        if row is not None and rows.rank(row) < passed.rank:
            first = previous.task
    current = rule.bypassed(previous, first, fence)
    if current is not None and not current.reserved:
        turns = tx.value("turns_since", fence=current.since)
        current = replace(current, reserved=turns >= tx.tuning.bypasses)
        if current.reserved:
            tx.event("capacity_reserved", now=rows.now, task=current.task)
    if current is not None and current != rows.held_up:
        tx.run("set_reservation", task=current.task, since=current.since, reserved=current.reserved)


def _grant_one(
    tx: Transaction,
    rows: AdmissionRows,
    worker: PresentWorker,
    row: Row,
    *,
    turn: str | None,
) -> Grant:
    task: int = row["id"]
    contends = is_entrant(row)
    opens = contends and not waits_in_team(row)
    asked = encode(dict(open_team(tx, rows, row, now=rows.now))) if opens else row["demand"]
    demand, costs = row_records.placed_demand(asked, worker.id, worker.host)
    files = row_records.files(row["files"])
    number = row["attempt"] + 1
    deadline = rows.now + tx.tuning.lease
    units = _pick_units(tx, demand)
    fence = rows.next_fence()
    lease = NewLease(
        fence=fence,
        kind="attempt",
        holder=row["name"],
        granted=rows.now,
        deadline=deadline,
        worker=worker.id,
        host=worker.host,
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
    if row["story"] is not None and not rows.holds(row["repo"], [row["story"]]):
        claim_for_story(tx, row["repo"], row["story"])
    tx.run(
        "add_attempt",
        task=task,
        number=number,
        fence=fence,
        worker=worker.id,
        agent=row["agent"],
        stage=row["stage"],
        started=rows.now,
    )
    tx.run("start_task", id=task, now=rows.now, attempt=number)
    ready.drop_ready_files(tx, row)
    tx.event("task_admitted", row, now=rows.now, fence=fence, attempt=number, worker=worker.id)
    if opens:
        fill_team(tx, row["story"], now=rows.now)
    return Grant(
        fence=fence,
        task=task,
        name=row["name"],
        run=row["run"],
        attempt=number,
        worker=worker.id,
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
