"""Reasons why a task does not run, by the same rules that admit it."""

from __future__ import annotations

from weft.admission.capacity import Shortage
from weft.model import HUMAN, SWARM, State, Task, Wait
from weft.store import row_records
from weft.store.admission_rows import AdmissionRows, ReadyTask, candidate, rank
from weft.store.database import Row, Transaction, encode_keys
from weft.store.store import reads
from weft.store.tasks import get_row


@reads
def probe(tx: Transaction, task: int, *, now: float, tenant: str | None = None) -> list[Wait]:
    """Return the reasons why a task waits; none if it is running, has ended, or could start at
    once.

    A `tenant` learns neither numbers nor files of other tenants' tasks.
    """
    row = get_row(tx, task)
    match State(row["state"]):
        case State.WAITING:
            return _before_ready(tx, row)
        case State.READY:
            return _before_admission(tx, row, AdmissionRows(tx, now), tenant)
        case State.PARKED:
            return [_wait("time", str(row["until"]), f"parked: {row['reason'] or 'backing off'}")]
        case State.OFFERED:
            worker = row["offered_to"]
            return [_wait("worker", worker, f"offered to {worker}, who has not answered")]
        case State.PAUSED | State.BLOCKED as state:
            return [_wait("person", str(state), f"{state}: {row['reason']}")]
        case _:
            return []


def _wait(kind: str, subject: str, text: str) -> Wait:
    return Wait(kind=kind, subject=subject, text=text)


_DRAINED = _wait("drain", "drain", "weft is drained: nothing starts (`weft drain --undo`)")


def _before_ready(tx: Transaction, row: Row) -> list[Wait]:
    waits = [
        _wait("need", str(need["id"]), f"task {need['id']} ({need['name']}) is {need['state']}")
        for need in tx.all("unmet_needs", task=row["id"])
    ]
    run = tx.one("run", id=row["run"]) if row["run"] is not None else None
    if run is not None and run["state"] == "waiting":
        waits.append(_wait("run", run["id"], f"run {run['id']} waits for a place among the runs"))
    lease = tx.one("open_lease_of_task", task=row["id"])
    if lease is not None:
        text = f"attempt {lease['attempt']} has not ended yet"
        waits.append(_wait("attempt", str(lease["attempt"]), text))
    if not waits and row["gang"] is not None:
        members = [r for r in tx.all("gang_members", gang=row["gang"]) if r["id"] != row["id"]]
        waits += [
            _wait(
                "gang",
                str(member["id"]),
                f"starts with task {member['id']}, which is {member['state']}",
            )
            for member in members
            if member["state"] != State.READY
        ]
    return waits


@reads
def order(tx: Transaction, *, now: float, tenant: str | None = None) -> list[int]:
    """List the ready tasks, or a tenant's, in the order of admission, held up or not."""
    rows = tx.all("ready_tasks") if tenant is None else tx.all("ready_tasks_of", tenant=tenant)
    return [row["id"] for row in sorted(rows, key=lambda row: rank(tx, row, now))]


@reads
def queue(
    tx: Transaction, *, now: float, most: int, tenant: str | None = None
) -> tuple[list[tuple[Task, list[Wait]]], int]:
    """Return the first ready tasks, or a tenant's, in order with the reasons why each waits; and
    the number of all."""
    numbers = order(tx, now=now, tenant=tenant)
    rows = {row["id"]: row for row in tx.all("tasks", ids=encode_keys(map(str, numbers[:most])))}
    scene = AdmissionRows(tx, now)
    first = [rows[number] for number in numbers[:most]]
    waits = [_before_admission(tx, row, scene, tenant) for row in first]
    return [(row_records.task(row), wait) for row, wait in zip(first, waits, strict=True)], len(
        numbers
    )


def _before_admission(
    tx: Transaction, row: Row, scene: AdmissionRows, tenant: str | None
) -> list[Wait]:
    if row["agent"] == HUMAN:
        return [_wait("person", HUMAN, f"asked of a person (`weft approve {row['id']}`)")]
    who = candidate(tx, row, rank(tx, row, scene.now))
    if who is None:
        return [_wait("gang", row["gang"], f"group {row['gang']} cannot start as a whole")]
    waits = [] if scene.ledger.drained is None else [_DRAINED]
    waits += [
        _file_wait(scene, pattern, holder, is_visible=_is_visible(tx, holder, tenant))
        for pattern, holder in sorted(scene.held_files(who).items())
    ]
    waits += [  # a task of its own run, hence of its tenant
        _wait(
            "order",
            str(earlier),
            f"task {earlier} goes first: it comes earlier and wants {pattern}",
        )
        for pattern, earlier in sorted(scene.find_ahead(who).items())
    ]
    kept_for = scene.reserved.task if scene.reserved is not None else None
    if kept_for is not None and not _is_visible(tx, kept_for, tenant):
        kept_for = None
    waits += _before_some_worker(scene, who, kept_for, is_own=tenant is None)
    if not waits and who.tenant == scene.ledger.yielding and _others_wait(tx, who):
        waits.append(_wait("turn", who.tenant, f"{who.tenant} has had its turns; others go first"))
    return waits


def _is_visible(tx: Transaction, task: int, tenant: str | None) -> bool:
    """Tell whether a tenant, or None for all tenants, may know of a task."""
    return tenant is None or get_row(tx, task)["tenant"] == tenant


def _file_wait(scene: AdmissionRows, pattern: str, holder: int, *, is_visible: bool) -> Wait:
    how = "held by"
    if scene.reserved is not None and scene.reserved.task == holder:
        how = "kept free for"
    if not is_visible:
        return _wait("file", "", f"a file it needs is {how} another tenant's task")
    return _wait("file", pattern, f"{pattern} {how} task {holder}")


def _before_some_worker(
    scene: AdmissionRows, who: ReadyTask, kept_for: int | None, *, is_own: bool
) -> list[Wait]:
    """List the shortages at the worker that has the fewest. Capacity may be named as kept for the
    task `kept_for`; the repository's path is named if `is_own`."""
    places = [
        place
        for place in scene.ledger.places.values()
        if who.pinned in (None, place.worker) and place.can_run(who.agents, who.repo, who.tenant)
    ]
    if not places:
        needed = _needed_worker(scene, who, is_own=is_own)
        return [_wait("worker", needed, f"no worker is present ({needed})")]
    best: list[Shortage] = min((scene.shortages(who, place) for place in places), key=len)
    return [
        _wait(
            "reservation" if _only_kept(scene, short) else "limit",
            short.resource,
            _text(scene, short, kept_for),
        )
        for short in best
    ]


def _needed_worker(scene: AdmissionRows, who: ReadyTask, *, is_own: bool) -> str:
    if who.pinned is not None:
        return who.pinned
    if who.repo.startswith(SWARM):
        kind = "a member of the swarm"
        return f"{kind} that can do {', '.join(sorted(who.agents))}" if who.agents else kind
    kind = f"one that runs {', '.join(sorted(who.agents))}" if who.agents else "any"
    places = scene.ledger.places.values()
    here = any(place.can_run(frozenset(), who.repo, None) for place in places)
    return kind if here or not places else f"{kind} in {who.repo if is_own else 'its repository'}"


def _only_kept(scene: AdmissionRows, short: Shortage) -> bool:
    """Tell whether there would be room if none were kept free for another task."""
    return scene.ledger.used.get(short.resource, 0) + short.asked <= short.capacity


def _text(scene: AdmissionRows, short: Shortage, kept_for: int | None) -> str:
    nominal = scene.ledger.nominal.get(short.resource, short.capacity)
    if _only_kept(scene, short) and scene.reserved is not None:
        return f"{short}, kept free for " + (f"task {kept_for}" if kept_for else "another's task")
    stopped = scene.ledger.stopped.get(short.resource.removeprefix("agent:"))
    if stopped is not None and short.resource.startswith("agent:"):
        name = short.resource.removeprefix("agent:")
        return f"agent {name} is stopped: {stopped} (`weft agents resume {name}` when it is mended)"
    if short.capacity == 0:
        return f"{short.resource} is paused"
    if short.capacity < nominal:
        return f"{short} (lowered from {nominal} by rate limits)"
    return str(short)


def _others_wait(tx: Transaction, who: ReadyTask) -> bool:
    return any(row["tenant"] != who.tenant for row in tx.all("bucket_heads"))
