"""Reasons why a task does not run, by the rules that admit it; and the slots that ready tasks
want."""

from __future__ import annotations

from collections import Counter

from msgspec import Struct

from weft.admission import capacity, rule
from weft.admission.capacity import Shortage
from weft.admission.order import rank
from weft.admission.rule import Obstacle, ReadyTask
from weft.formats import listed
from weft.host_labels import describe_labels
from weft.model import HUMAN, SWARM, State, Task, TaskKind, Wait
from weft.store import row_records
from weft.store.admission_rows import AdmissionRows
from weft.store.database import Row, Transaction, encode_keys
from weft.store.ledger import Ledger
from weft.store.repositories import find_repository
from weft.store.row_records import get_task_row
from weft.store.store import reads
from weft.words import IN_REVIEW, state_clause, state_word, task_label


@reads
def probe(tx: Transaction, task: int, *, now: float) -> list[Wait]:
    """Return the reasons why a task waits; none if it is running, has ended, or could start at
    once."""
    row = get_task_row(tx, task)
    match State(row["state"]):
        case State.WAITING:
            return _before_ready(tx, row)
        case State.READY:
            return _before_admission(tx, row, AdmissionRows(tx, now))
        case State.PARKED:
            word = state_word(State.PARKED, until=row["until"])
            return [_wait("time", str(row["until"]), f"{word}: {row['reason'] or 'backing off'}")]
        case State.OFFERED:
            worker = row["offered_to"]
            return [_wait("worker", worker, f"waiting for {worker} to answer the offer")]
        case State.PAUSED | State.BLOCKED as state:
            return [_wait("person", str(state), f"{state_word(state)}: {row['reason']}")]
        case State.GATING if row["reason"] == IN_REVIEW:
            label = row_records.label(row)
            return [_wait("person", "review", f"in review; `weft review {label}` shows it")]
        case _:
            return []


def _wait(kind: str, subject: str, text: str) -> Wait:
    return Wait(kind=kind, subject=subject, text=text)


_DRAINED = _wait("drain", "drain", "weft is drained, no task starts (`weft drain --undo`)")


def _before_ready(tx: Transaction, row: Row) -> list[Wait]:
    waits = [_need_wait(tx, need, row) for need in tx.all("unmet_needs", task=row["id"])]
    run = tx.one("run", id=row["run"]) if row["run"] is not None else None
    if run is not None and run["state"] == "waiting":
        waits.append(_wait("run", run["id"], "waiting for a place among the runs"))
    lease = tx.one("open_lease_of_task", task=row["id"])
    if lease is not None:
        text = f"waiting for the end of attempt {lease['attempt']}"
        waits.append(_wait("attempt", str(lease["attempt"]), text))
    if not waits and row["gang"] is not None:
        members = [r for r in tx.all("gang_members", gang=row["gang"]) if r["id"] != row["id"]]
        waits += [
            _wait(
                "gang",
                str(member["id"]),
                f"waiting to start with {_label(member, row)}, which {_state_clause(member)}",
            )
            for member in members
            if member["state"] != State.READY
        ]
    return waits


def _need_wait(tx: Transaction, need: Row, row: Row) -> Wait:
    if row_records.request(need).kind is not TaskKind.BARRIER:
        text = f"waiting for {_label(need, row)}, which {_state_clause(need)}"
        return _wait("need", str(need["id"]), text)
    names = [
        f"{_label(unmet, row)} ({_state(unmet)})"
        for unmet in tx.all("unmet_needs", task=need["id"])
    ]
    phase = listed(names, 3) or "its last task"
    return _wait("need", str(need["id"]), f"waiting for the end of an earlier phase: {phase}")


@reads
def order(tx: Transaction, *, now: float) -> list[int]:
    """List the ready tasks in the order of admission, held up or not."""
    rows = tx.all("ready_tasks")
    entries = map(row_records.queue_entry, rows)
    return [entry.id for entry in sorted(entries, key=lambda entry: rank(entry, now, tx.tuning))]


@reads
def queue(tx: Transaction, *, now: float, most: int) -> tuple[list[tuple[Task, list[Wait]]], int]:
    """Return the first ready tasks in order with the reasons why each waits; and the number of
    all."""
    numbers = order(tx, now=now)
    rows = {row["id"]: row for row in tx.all("tasks", ids=encode_keys(map(str, numbers[:most])))}
    first = [rows[number] for number in numbers[:most]]
    scene = AdmissionRows(tx, now)
    waits = [_before_admission(tx, row, scene) for row in first]
    return [(row_records.task(row), wait) for row, wait in zip(first, waits, strict=True)], len(
        numbers
    )


def _before_admission(tx: Transaction, row: Row, rows: AdmissionRows) -> list[Wait]:
    if row["agent"] == HUMAN:
        cure = f"`weft answer {task_label(row['id'], row['run'], row['name'])} --yes`"
        return [_wait("person", HUMAN, f"waiting for your answer ({cure})")]
    task = rows.read_task(row)
    waits = [] if rows.drained is None else [_DRAINED]
    obstacles = rule.find_obstacles(task, rows.workers.values(), rows)
    # Files first: they say more than a worker that is busy anyway.
    files_first = sorted(obstacles, key=lambda obstacle: obstacle.kind in ("worker", "limit"))
    waits += [_describe(tx, obstacle, task, rows) for obstacle in files_first]
    rivals = [best for best in rows.buckets if best["tenant"] != row["tenant"]]
    if not waits and rivals and row["tenant"] == rows.yielding:
        return [_wait("turn", row["tenant"], "waiting for its turn: other tenants go first")]
    return waits


def _describe(tx: Transaction, obstacle: Obstacle, task: ReadyTask, rows: AdmissionRows) -> Wait:
    row, subject = task.rows[0], obstacle.subject
    match obstacle.kind:
        case "gang":
            return _wait("gang", row["gang"], "waiting until its parallel group can start together")
        case "worker":
            return _worker_wait(rows, task, _repository_place(tx, task.repo))
        case "file":
            return _file_wait(rows, subject, row, get_task_row(tx, obstacle.task))
        case "order":
            name = _label(get_task_row(tx, obstacle.task), row)
            text = f"waiting for {subject}, which {name} changes first"
            return _wait("order", str(obstacle.task), text)
    assert obstacle.shortage is not None
    kept = _only_kept(rows, obstacle.shortage)
    kept_for = _label(get_task_row(tx, rows.kept.id), row) if rows.kept is not None else ""
    text = _text(rows, obstacle.shortage, kept_for)
    return _wait("reservation" if kept else "limit", subject, text)


def _label(task: Row, row: Row) -> str:
    """Name another task for the people who ask about this row's task."""
    label = task_label(task["id"], task["run"], task["name"], within=row["run"])
    return label if task["run"] is not None else f"task {label}"


def _state_clause(row: Row) -> str:
    return state_clause(_state(row))


def _state(row: Row) -> str:
    return state_word(
        row["state"],
        stage=row["stage"],
        agent=row["agent"],
        until=row["until"],
        reason=row["reason"],
    )


def _file_wait(rows: AdmissionRows, pattern: str, row: Row, holder: Row) -> Wait:
    name = _label(holder, row)
    if rows.kept is not None and rows.kept.id == holder["id"]:
        return _wait("file", pattern, f"waiting for {pattern}, which is kept free for {name}")
    if holder["state"] == State.PAUSED:
        return _wait("file", pattern, _paused_holder(pattern, name, holder))
    return _wait("file", pattern, f"waiting for {pattern}, which {name} is changing")


def _paused_holder(pattern: str, name: str, holder: Row) -> str:
    """Say which commands free the files of a task that stands still."""
    work = holder["run"] or holder["id"]
    cure = f"`weft resume {work}` lets it go on, `weft cancel {work}` frees them"
    return f"waiting for {pattern}, which {name} holds; it is paused ({cure})"


def _worker_wait(rows: AdmissionRows, task: ReadyTask, place_of_repository: str) -> Wait:
    """Describe the worker that a task needs while no such worker is present."""
    if task.pinned is not None:
        return _wait("worker", task.pinned, f"waiting for {task.pinned}, which is not present")
    agents = ", ".join(sorted(task.agents))
    if task.repo.startswith(SWARM):
        needed = f"a member of the swarm{f' that can do {agents}' if agents else ''}"
        return _wait("worker", needed, f"waiting for {needed}: none is present")
    labels = f" with {describe_labels(task.labels)}" if task.labels else ""
    needed = f"a worker{labels}{f' that runs {agents}' if agents else ''}"
    present = rows.workers.values()
    if present and not any(worker.can_run(frozenset(), task.repo) for worker in present):
        needed += f" in {place_of_repository}"
    text = f"waiting for {needed}: none is present"
    if task.labels:
        return _wait("label", ",".join(sorted(task.labels)), text)
    return _wait("worker", needed, text)


def _repository_place(tx: Transaction, repo: str) -> str:
    """Describe where a repository is."""
    known = find_repository(tx, repo)
    return repo if known is None else f"{known.path} on {known.host}"


def _only_kept(rows: AdmissionRows, short: Shortage) -> bool:
    """Tell whether there would be room if none were kept free for another task."""
    return rows.used.get(short.resource, 0) + short.asked <= short.capacity


def _text(rows: AdmissionRows, short: Shortage, kept_for: str) -> str:
    nominal = rows.nominal.get(short.resource, short.capacity)
    if _only_kept(rows, short) and rows.kept is not None:
        return f"waiting for {short}; the rest is kept free for {kept_for or 'another task'}"
    if short.resource in {f"run:{run}/agents" for run in rows.untested}:
        return "waiting for the check of the base, which no agent has touched"
    stopped = rows.stopped.get(short.resource.removeprefix("agent:"))
    if stopped is not None and short.resource.startswith("agent:"):
        name = short.resource.removeprefix("agent:")
        return f"agent {name} is stopped: {stopped} (`weft agents resume {name}` starts it again)"
    if short.capacity == 0 and short.resource.startswith("agent:"):
        name = short.resource.removeprefix("agent:")
        return f"agent {name} is paused by `max_concurrency: 0` in .weft/agents/{name}.md"
    if short.capacity == 0:
        return f"waiting for the limit {short.resource}, which is paused"
    if short.capacity < nominal:
        return f"waiting for {short} (lowered from {nominal} by rate limits)"
    return f"waiting for {short}"


class WantedSlots(Struct, frozen=True, kw_only=True):
    repo: str
    labels: tuple[str, ...]  # that the worker must have
    slots: int


@reads
def count_wanted(tx: Transaction, *, now: float) -> list[WantedSlots]:
    """Count, by repository and set of labels, the tasks that could start now if a worker had a slot
    for each. The view `weft.wanted` (sql/wanted.sql) counts them for autoscalers."""
    ledger = Ledger(tx, now)
    asked: Counter[str] = Counter()
    taken: set[tuple[str, str]] = set()  # the files that earlier tasks ask for
    wanted: Counter[tuple[str, tuple[str, ...]]] = Counter()
    for row in tx.all("wanted_tasks"):
        demand = capacity.shared(row_records.demand(row["demand"]))
        asked.update(demand)
        together = {resource: asked[resource] for resource in demand}
        files = {(row["repo"], file) for file in row_records.files(row["files"])}
        fits = not capacity.shortages(together, ledger.nominal, ledger.used)
        if fits and taken.isdisjoint(files):
            wanted[row["repo"], tuple(sorted(row_records.labels(row["demand"])))] += 1
        taken |= files
    return [
        WantedSlots(repo=repo, labels=labels, slots=slots)
        for (repo, labels), slots in sorted(wanted.items())
    ]
