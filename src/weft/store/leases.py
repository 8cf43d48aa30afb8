"""Leases after they were granted: every effect carries its fence, or is refused.

A lease is held, then suspect (its deadline passed, or its worker was found dead), then released.
Suspect leases still count: time alone frees no lease. Amounts end with the attempt; claims stay
with the task until it ends, is blocked or is sent back.
"""

from __future__ import annotations

from collections.abc import Sequence

from weft.admission import capacity, rule
from weft.errors import InputError, Refused, StaleFence
from weft.model import Demand, Lease, ObjectId, State
from weft.store import ready, row_records
from weft.store.admission_rows import AdmissionRows
from weft.store.claims import STALLED, bring_all_back, held_by_siblings
from weft.store.database import Row, Transaction, encode_keys
from weft.store.ledger import (
    Ledger,
    end_attempt,
    end_lease,
    is_wanted,
    lease_to_worker,
    settle_spending,
)
from weft.store.store import reads, writes
from weft.store.team_rows import is_contending, is_entrant
from weft.store.teams import decide
from weft.store.workers import forget_empty_host


@writes
def renew(tx: Transaction, fences: Sequence[int], *, now: float) -> list[int]:
    """Renew several leases; return the fences that are no longer current."""
    lost = []
    alive: set[str | None] = set()
    for fence in fences:
        lease = tx.one("lease", fence=fence)
        if lease is None or lease["state"] == "released" or lease["kind"] == "run":
            lost.append(fence)  # a run has no process that could give a sign of life
        elif not owns_task(tx, lease):
            lost.append(fence)
        else:
            tx.run("renew", fence=fence, deadline=now + tx.tuning.lease)
            alive.add(lease["worker"])
    for worker in sorted(worker for worker in alive if worker is not None):
        tx.run("heartbeat", id=worker, now=now)  # read by reapers on other hosts
    return lost


@writes
def release(
    tx: Transaction,
    fence: int,
    *,
    now: float,
    reason: str = "handed_back",
    spent: Demand | None = None,
) -> bool:
    """Free the amounts of an attempt whose process has ended without an outcome.

    Its task becomes ready again, which counts as no failure, unless it was cancelled. Its
    reservation of a consumable counts as spent, except for the amounts in `spent`. Return False,
    without a change, if the lease had been released before.
    """
    lease = get_lease_row(tx, fence)
    if lease["kind"] == "run":
        raise StaleFence(f"Fence {fence} is a run's, which is released when the run ends.")
    if lease["state"] == "released":
        return False
    _release(tx, lease, tx.redact(reason), spent or {}, now=now)
    return True


def _release(tx: Transaction, lease: Row, reason: str, spent: Demand, *, now: float) -> None:
    end_lease(tx, lease, reason, now=now)
    if lease["kind"] != "attempt":
        return
    settle_spending(tx, lease, spent)
    end_attempt(tx, lease, reason, now=now)
    task = tx.one("task", id=lease["task"])
    assert task is not None
    tx.event(
        "attempt_released",
        task,
        now=now,
        fence=lease["fence"],
        attempt=lease["attempt"],
        reason=reason,
    )
    if task["state"] == State.RUNNING:
        ready.requeue(tx, task["id"], now=now, reason=reason)
    elif task["state"] == State.WAITING:
        ready.settle(tx, [task["id"]], now=now)  # reopened while its last process still ran
    if task["story"] is not None:
        decide(tx, task["story"], now=now)


@writes
def extend(
    tx: Transaction, fence: int, files: Sequence[str], *, now: float, free: Sequence[str] = ()
) -> dict[str, int]:
    """Claim more files for a running task, at once or not at all.

    Empty means granted. Otherwise return the held patterns with their holders: no task waits for
    claims while holding claims, so the caller ends the attempt and asks for all files next time.
    Files in `free` are not claimed; they only must not be held.
    """
    _, task = require_current(tx, fence)
    own = {number for number in (task["id"], task["story"]) if number is not None}
    rows = AdmissionRows(tx, now)
    needed = [*files, *free]
    held = rule.find_kept_files(task["repo"], needed, rows)
    held |= rows.find_holders(task["repo"], needed, own)
    held |= held_by_siblings(tx, task, needed)
    if held or not files:
        return held
    wanted = [*row_records.files(task["files"]), *files]
    holder = task["story"] if is_entrant(task) else task["id"]
    tx.run("add_claims", task=holder, repo=task["repo"], patterns=encode_keys(files))
    tx.run("set_files", id=task["id"], files=encode_keys(wanted))
    if task["state"] in STALLED:
        bring_all_back(tx, task["repo"])
    tx.event("claims_extended", task, now=now, files=list(files), by="agent")
    return {}


@writes
def reserve(tx: Transaction, fence: int, demand: Demand, *, now: float) -> bool:
    """Reserve at least this much of a consumable (its budget) for a running attempt, if it fits
    now.

    Amounts are totals, so that the same call again has no effect. A larger reservation stays.
    """
    lease, _ = require_current(tx, fence)
    capacity.refuse_odd_amounts(demand)
    rows = AdmissionRows(tx, now)
    held = {row["resource"]: row["amount"] for row in tx.all("costs_of", fence=fence)}
    asked = capacity.resolve(demand, lease["worker"], lease["host"])
    more = {name: n - held.get(name, 0) for name, n in asked.items() if n > held.get(name, 0)}
    if rows.shortages_of(more):
        return False
    for resource, amount in sorted(more.items()):
        tx.run("reserve", fence=fence, resource=resource, amount=amount)
    return True


@writes
def adopt(tx: Transaction, fence: int, worker: str, *, now: float) -> int:
    """Take over an attempt whose worker is gone but whose process lives; return the new fence.

    The attempt and its claims continue, the old fence is refused from now on. The adopter's slots
    may be exceeded by this, which only stops its further admissions.
    """
    before = _adopted_before(tx, fence, worker)
    if before is not None:
        return before
    lease, task = require_current(tx, fence)
    if lease["state"] != "suspect":
        raise StaleFence(f"The lease {fence} is in good hands; only a suspect one can be adopted.")
    ledger = Ledger(tx, now)
    host = ledger.worker(worker).host
    if host != lease["host"] or _boot(tx, worker) != _boot(tx, lease["worker"]):
        raise Refused(f"{worker} is not where the attempt's process is ({lease['host']}).")
    costs = {
        f"worker:{worker}" if row["resource"].startswith("worker:") else row["resource"]: row[
            "amount"
        ]
        for row in tx.all("costs_of", fence=fence)
    }
    tx.run("end_lease", fence=fence, now=now, ended="adopted")
    fresh = lease_to_worker(
        tx,
        ledger,
        worker,
        costs,
        kind="attempt",
        holder=lease["holder"],
        now=now,
        task=lease["task"],
        attempt=lease["attempt"],
    )
    tx.run("move_units", fence=fresh, old=fence)
    tx.run("hand_over_tokens", fence=fresh, old=fence)
    tx.run(
        "hand_over_attempt", fence=fresh, worker=worker, task=lease["task"], number=lease["attempt"]
    )
    tx.event("attempt_adopted", task, now=now, fence=fresh, worker=worker)
    tx.wake()
    return fresh


def _adopted_before(tx: Transaction, fence: int, worker: str) -> int | None:
    """Return the fence under which this worker has already adopted a lease."""
    lease = get_lease_row(tx, fence)
    if lease["ended"] != "adopted":
        return None
    heir = tx.one("open_lease_of_task", task=lease["task"])
    same = heir is not None and (heir["attempt"], heir["worker"]) == (lease["attempt"], worker)
    return int(heir["fence"]) if heir is not None and same else None


def _boot(tx: Transaction, worker: str) -> str:
    row = tx.one("worker", id=worker)
    return "" if row is None else str(row["boot"])


@writes
def fix_team_base(tx: Transaction, fence: int, base: ObjectId) -> ObjectId:
    """Let all entrants of a team start from the same commit; return the commit of the first."""
    _, task = require_current(tx, fence)
    if not is_contending(tx, task):
        return base
    tx.run("fix_team_base", task=task["story"], base=base)
    team = tx.one("team", task=task["story"])
    return base if team is None else str(team["base"])


@writes
def suspect_overdue(tx: Transaction, *, now: float) -> list[Lease]:
    """Mark overdue leases suspect; list every suspect lease; free none."""
    if any(lease["deadline"] is not None and lease["deadline"] < now for lease in _held(tx)):
        tx.run("suspect_overdue", now=now)
    return [row_records.lease(row) for row in tx.all("suspects")]


def _held(tx: Transaction) -> list[Row]:
    return [row for row in tx.all("open_leases") if row["state"] == "held"]


@writes
def free_proved_dead(tx: Transaction, fence: int, *, now: float, proof: str) -> bool:
    """Free a suspect lease whose holder was proved dead; `proof` is the evidence.

    Return False if the holder has renewed it in the meantime, or another process was faster.
    """
    lease = get_lease_row(tx, fence)
    if lease["state"] != "suspect":
        return False
    task = tx.one("task", id=lease["task"]) if lease["task"] is not None else None
    run = None if task is None else task["run"]
    tx.event("lease_reaped", now=now, run=run, task=lease["task"], fence=fence, proof=proof)
    _release(tx, lease, "reaped", {}, now=now)
    if lease["host"] is not None:
        forget_empty_host(tx, lease["host"])
    return True


@writes
def take(
    tx: Transaction,
    kind: str,
    holder: str,
    demand: Demand,
    *,
    worker: str,
    now: float,
    entries: Sequence[str] = (),
    tree: str = "",
) -> int | None:
    """Lease a gate, a check or a projection; return the fence, or None if it does not fit.

    `entries` and `tree` are those of a check, for display. A gate or a projection has one holder,
    and may be taken over at its deadline without proof of death: landing intents only roll forward,
    and a late holder finds its fence refused.
    """
    if kind not in ("gate", "check", "projection"):
        raise InputError(f"A {kind} lease is not taken this way.")
    capacity.refuse_odd_amounts(demand)
    rows = AdmissionRows(tx, now)
    resolved = capacity.resolve(demand, worker, rows.worker(worker).host)
    held = tx.one("open_leases_held_by", kind=kind, holder=holder) if kind != "check" else None
    if held is not None:
        if held["deadline"] is None or held["deadline"] >= now:
            return None
        for row in tx.all("costs_of", fence=held["fence"]):
            rows.enter({row["resource"]: -row["amount"]})
    if rows.shortages_of(resolved):
        return None
    if held is not None:
        end_lease(tx, held, "taken_over", now=now)
    fence = lease_to_worker(tx, rows, worker, resolved, kind=kind, holder=holder, now=now)
    if kind != "projection":
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
    return fence


@reads
def get_lease(tx: Transaction, fence: int) -> Lease:
    return row_records.lease(get_lease_row(tx, fence))


@reads
def find_lost(tx: Transaction, fences: Sequence[int]) -> list[int]:
    """List the fences that are no longer current: cancelled, adopted or reaped."""
    leases = {fence: tx.one("lease", fence=fence) for fence in fences}
    return [
        fence
        for fence, lease in leases.items()
        if lease is None or lease["state"] == "released" or not owns_task(tx, lease)
    ]


@reads
def list_open(tx: Transaction) -> list[Lease]:
    return [row_records.lease(row) for row in tx.all("open_leases")]


def get_lease_row(tx: Transaction, fence: int) -> Row:
    lease = tx.one("lease", fence=fence)
    if lease is None:
        raise unknown_fence(fence)
    return lease


def unknown_fence(fence: int) -> StaleFence:
    return StaleFence(f"You were never given the fence {fence}.")


def require_current(tx: Transaction, fence: int) -> tuple[Row, Row]:
    """Return the open lease of an attempt and its task; refuse a fence that is not current."""
    lease = get_lease_row(tx, fence)
    task = tx.one("task", id=lease["task"]) if lease["task"] is not None else None
    if task is None or lease["state"] == "released" or not owns_task(tx, lease):
        raise StaleFence(f"Fence {fence} is no longer current ({lease['ended'] or 'task ended'}).")
    return lease, task


def owns_task(tx: Transaction, lease: Row) -> bool:
    """Tell whether a lease's attempt has not ended, and a gate waits for its check: a cancelled
    process keeps its amounts only."""
    if lease["kind"] == "check":
        order = tx.one("check_order_under", fence=lease["fence"])  # home's own checks have none
        return order is None or is_wanted(order)
    if lease["kind"] != "attempt":
        return True
    attempt = tx.one("attempt", task=lease["task"], number=lease["attempt"])
    return attempt is not None and attempt["ended"] is None
