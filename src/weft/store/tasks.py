"""Tasks: submission, and the operations of people on them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import asdict, replace

from weft import graph
from weft.admission import capacity
from weft.admission.order import QueueEntry, declared_class, last_of
from weft.errors import AlreadyEnded, InputError, NeverFits, QueueFull, Refused
from weft.model import HERE, HUMAN, TERMINAL, Attempt, Demand, NewTask, Stage, State, Task
from weft.paths import conflicts
from weft.store import ready, row_records
from weft.store.claims import give_up
from weft.store.database import Row, Transaction, encode, encode_ascii, encode_keys, storable
from weft.store.entrants import add_team, list_members, start_again
from weft.store.entries import back_to_its_maker, landing_tasks, set_stage
from weft.store.ready import end_task
from weft.store.row_records import get_task_row
from weft.store.store import reads, writes
from weft.store.team_rows import is_contending
from weft.store.teams import end_team, record_failure, refuse_entrant, refuse_winner
from weft.teams.choice import CandidateResult
from weft.words import state_word

_PAUSABLE = frozenset({State.WAITING, State.READY, State.OFFERED, State.RUNNING, State.PARKED})


@writes
def submit(
    tx: Transaction, task: NewTask, *, repo: str, tenant: str = "default", now: float
) -> int:
    """Submit an ad-hoc task, which may need earlier tasks by number; return its number."""
    newcomer = tx.value("last_task") + 1
    if tx.value("queue_length") >= tx.tuning.queue:
        _make_way(tx, task, newcomer, now=now)
    add_tasks(tx, [task], run=None, repo=repo, tenant=tenant, now=now)
    ready.settle(tx, [newcomer], now=now)
    return int(newcomer)


def _make_way(tx: Transaction, task: NewTask, newcomer: int, *, now: float) -> None:
    """Evict the last task in order from a full queue; refuse the newcomer if it is the last."""
    queued = [row_records.queue_entry(row) for row in tx.all("queue")]
    entry = QueueEntry(
        id=newcomer,
        klass=declared_class(task.klass, task.agent),
        priority=task.priority,
        path_seconds=0.0,
        submitted=now,
    )
    last = last_of(queued, entry, now, tx.tuning)
    if last is entry:
        raise QueueFull(
            f"The queue holds {tx.tuning.queue} tasks and all of them rank higher; "
            "try again later, or raise the task's class or priority."
        )
    reason = f"the queue is full ({tx.tuning.queue}) and task {newcomer} ranks higher"
    end_task(tx, get_task_row(tx, last.id), State.EVICTED, now=now, reason=reason)


@writes
def evict_overdue(tx: Transaction, *, now: float) -> None:
    """Evict ad-hoc tasks that have waited for their start longer than `capacity_wait`."""
    longest = tx.tuning.capacity_wait
    for row in tx.all("queue") if longest else ():
        if row["submitted"] < now - longest:
            reason = f"it waited for its start for more than {longest:g} s (capacity_wait)"
            end_task(tx, get_task_row(tx, row["id"]), State.EVICTED, now=now, reason=reason)


def add_tasks(
    tx: Transaction,
    tasks: Sequence[NewTask],
    *,
    run: str | None,
    repo: str,
    tenant: str,
    now: float,
) -> dict[str, int]:
    """Write tasks and their needs; return their numbers by name.

    All wait, except those that the plan holds back: these are blocked.
    """
    first = tx.value("last_task") + 1
    numbers = {task.name or f"t{first + n}": first + n for n, task in enumerate(tasks)}
    if len(numbers) != len(tasks):
        raise InputError("Two tasks of one submission have the same name.")
    limits = {row["resource"]: int(row["capacity"]) for row in tx.all("limits")}
    places = [row["id"] for row in tx.all("workers_present")]
    for task in tasks:
        _refuse_what_never_fits(task.name, task.demand, limits, places)
    _refuse_cycles(tasks, numbers)
    gangs = _possible_gangs(tasks, limits, places)
    tx.many(
        "add_task",
        [
            {
                **asdict(task),
                "id": numbers[name],
                "run": run,
                "name": name,
                "repo": repo,
                "tenant": tenant,
                "text": storable(task.text),
                "request": row_records.request_text(task.request),
                "attached": encode_ascii(task.attached),
                "now": now,
                "class": declared_class(task.klass, task.agent),
                "priority": int(task.priority),
                "demand": encode(dict(task.demand)),
                "files": encode_keys(task.files),
                # Ad-hoc tasks go by submission, so their paths are all alike.
                "path_seconds": task.path_seconds if run is not None else 0.0,
                "submitted": now,
                "story": None if task.story is None else _number(tx, task.story, numbers, run),
                "gang": f"{run or first}/{task.gang}" if task.gang in gangs else None,
            }
            for name, task in zip(numbers, tasks, strict=True)
        ],
    )
    tx.many(
        "add_edge",
        [
            {"task": numbers[name], "needs": need}
            for name, task in zip(numbers, tasks, strict=True)
            for need in sorted({_number(tx, need, numbers, run) for need in task.needs})
        ],
    )
    for name, task in zip(numbers, tasks, strict=True):
        if task.request.held:
            row = get_task_row(tx, numbers[name])
            ready.leave(tx, row, State.BLOCKED, now=now, reason=task.request.held)
            tx.event("task_held", row, now=now, reason=task.request.held)
    for name, task in zip(numbers, tasks, strict=True):
        if task.request.team is not None:
            add_team(tx, get_task_row(tx, numbers[name]), now=now)
    for name, number in numbers.items() if len(numbers) == 1 else ():
        tx.event("task_submitted", now=now, run=run, task=number, name=name)
    return numbers


def _refuse_cycles(tasks: Sequence[NewTask], numbers: Mapping[str, int]) -> None:
    """Refuse tasks that need each other in a circle: all of them would wait for ever."""
    names = list(numbers)
    place = {name: index for index, name in enumerate(names)}
    successors: list[list[int]] = [[] for _ in names]
    for index, task in enumerate(tasks):
        for need in task.needs:
            if need in place:
                successors[place[need]].append(index)
    cycle = graph.find_cycle(successors)
    if cycle is not None:
        circle = " → ".join(names[index] for index in [*cycle, cycle[0]])
        raise InputError(f"These tasks need each other in a circle: {circle}.")


def _number(tx: Transaction, name: str, numbers: dict[str, int], run: str | None) -> int:
    """Return the number of a referenced task: of this submission, of the run, or a number
    itself."""
    if name in numbers:
        return numbers[name]
    row = None
    if run is not None:
        row = tx.one("task_by_name", run=run, name=name)
    elif name.isdecimal():
        row = tx.one("task", id=int(name))
    if row is None:
        raise InputError(f"There is no task {name!r} to depend on.")
    return int(row["id"])


def _refuse_what_never_fits(
    name: str, demand: Demand, limits: dict[str, int], places: Sequence[str]
) -> None:
    """Refuse a demand above a capacity, which would wait for ever. A limit of 0 is a pause."""
    capacity.refuse_odd_amounts(demand, f"Task {name}")
    for resource, amount in demand.items():
        if resource == f"worker:{HERE}":
            sizes = [
                limits[f"worker:{worker}"] for worker in places if f"worker:{worker}" in limits
            ]
        elif resource.startswith(f"host:{HERE}/"):
            suffix = resource.removeprefix(f"host:{HERE}")
            sizes = [n for r, n in limits.items() if r.startswith("host:") and r.endswith(suffix)]
        else:
            sizes = [limits[resource]] if resource in limits else []
        if sizes and 0 < max(sizes) < amount:
            raise NeverFits(
                f"Task {name} asks for {amount} of {resource}, whose limit is {max(sizes)}: "
                "it could never start. Ask for less, or raise the limit first."
            )


def _possible_gangs(
    tasks: Sequence[NewTask], limits: dict[str, int], places: Sequence[str]
) -> set[str]:
    """Return the gangs whose tasks could ever start together; other gangs become ordinary tasks."""
    gangs: dict[str, list[NewTask]] = {}
    for task in tasks:
        if task.gang is not None:
            gangs.setdefault(task.gang, []).append(task)
    return {gang for gang, members in gangs.items() if _fit_together(members, limits, places)}


def _fit_together(
    members: Sequence[NewTask], limits: dict[str, int], places: Sequence[str]
) -> bool:
    together = capacity.add(*(member.demand for member in members))
    try:
        _refuse_what_never_fits("", together, limits, places)
    except InputError:
        return False
    names = {member.name for member in members}
    pins = {member.pinned for member in members} - {None}
    return (
        len(pins) <= 1
        and not any(names & set(member.needs) for member in members)
        and not any(
            conflicts(mine, theirs)
            for first, second in itertools.combinations(members, 2)
            for mine in first.files
            for theirs in second.files
        )
    )


@writes
def cancel(tx: Transaction, task: int, *, now: float, reason: str = "cancelled") -> bool:
    """Cancel a task; return False, without a change, if it had ended."""
    row = get_task_row(tx, task)
    if State(row["state"]) in TERMINAL:
        return False
    _refuse_landing(tx, row)
    refuse_winner(tx, row)
    end_task(tx, row, State.CANCELLED, now=now, reason=reason)
    end_team(tx, row, now=now)
    if is_contending(tx, row):
        record_failure(tx, row, CandidateResult.FAILED, reason, now=now)
    return True


def _refuse_landing(tx: Transaction, row: Row) -> None:
    """Refuse to stop a task that is landing, or a story whose last subtask is landing."""
    if row["run"] is not None and row["id"] in landing_tasks(tx, row["run"]):
        raise Refused(f"Task {row_records.label(row)} is landing and can no longer be stopped.")


@writes
def skip(tx: Transaction, task: int, *, now: float, reason: str = "skipped") -> bool:
    """Count a task as met without doing it; return False if it is done or skipped already."""
    row = get_task_row(tx, task)
    if row["state"] in (State.DONE, State.SKIPPED):
        return False
    _refuse_landing(tx, row)
    refuse_entrant(tx, row, "skip")
    end_task(tx, row, State.SKIPPED, now=now, reason=reason)
    end_team(tx, row, now=now)
    return True


@writes
def retry(
    tx: Transaction,
    task: int,
    *,
    now: float,
    stage: Stage | None = None,
    files: Sequence[str] = (),
) -> bool:
    """Reopen a task that ended or is blocked; return False if it is already under way.

    `stage` replaces the task's present stage, for another agent; `files` are patterns that the task
    may change besides its own.
    """
    row = get_task_row(tx, task)
    if row["state"] == State.DONE:
        raise AlreadyEnded(
            f"Task {row_records.label(row)} is done and has landed; a new task can change it again."
        )
    if State(row["state"]) not in TERMINAL and row["state"] != State.BLOCKED:
        return False
    run = tx.one("run", id=row["run"]) if row["run"] is not None else None
    if run is not None and run["state"] == "ended":
        raise Refused(f"Run {row['run']} has ended; submit its tasks as a new run.")
    refuse_entrant(tx, row, "retry")
    tx.event("task_reopened", row, now=now, was=row["state"])
    tx.run("forget_failures", task=task)  # a person has seen the failures: a pattern starts anew
    tx.run("discount_hops", task=task)
    if stage is not None:
        _replace_stage(tx, row, stage)
    if files:
        wanted = dict.fromkeys([*row_records.files(row["files"]), *files])
        tx.run("set_files", id=task, files=encode_keys(wanted))
        tx.event("claims_extended", row, now=now, files=list(files))
    for member in tx.all("gang_members", gang=row["gang"])[:1] if row["gang"] is not None else ():
        # The rest of its gang may have gone to another worker; a gang starts at a single worker.
        tx.run("set_pin", id=task, pinned=member["pinned"], until=member["pin_until"])
    if not start_again(tx, row, now=now):
        ready.requeue(tx, task, now=now)
    if row["state"] == State.SKIPPED:
        ready.unsettle_dependents(tx, task, now=now)
    return True


def _replace_stage(tx: Transaction, row: Row, stage: Stage) -> None:
    """Give a task's present stage to another agent, in this attempt and in later ones."""
    asked = row_records.request(row)
    stages = [stage if step.name == stage.name else step for step in asked.stages]
    text = row_records.request_text(replace(asked, stages=tuple(stages)))
    tx.run("set_request", id=row["id"], request=text)
    set_stage(tx, row["id"], stage)


@writes
def change_stages(tx: Transaction, task: int, stages: Sequence[Stage], *, now: float) -> None:
    """Replace the stages of a task that has not ended; a running attempt goes on as it began."""
    row = get_task_row(tx, task)
    if State(row["state"]) in TERMINAL:
        return
    asked = replace(row_records.request(row), stages=tuple(stages))
    tx.run("set_request", id=task, request=row_records.request_text(asked))
    present = next((stage for stage in stages if stage.name == row["stage"]), None)
    if present is None or row["state"] == State.RUNNING:
        return
    set_stage(tx, task, present)
    if row["state"] == State.READY:
        ready.requeue(tx, task, now=now)


@writes
def approve(tx: Transaction, task: int, *, now: float, note: str = "") -> bool:
    """Mark a person's task as done or agreed to; return False if it had ended."""
    row = get_task_row(tx, task)
    name = row_records.label(row)
    if State(row["state"]) in TERMINAL:
        return False
    if row["agent"] != HUMAN:
        raise Refused(f"Task {name} asks you nothing; `weft skip {name}` leaves it out.")
    if row["state"] == State.WAITING:
        raise Refused(f"Task {name} is waiting: the tasks it needs have not landed.")
    ready.leave(tx, row, State.DONE, now=now, reason=note)
    tx.event("task_approved", row, now=now, note=note)
    ready.settle_dependents(tx, task, now=now)
    tx.wake()
    return True


@writes
def reject(tx: Transaction, task: int, reason: str, *, now: float) -> State:
    """Reject a task for a person; return its new state.

    A task for a person is blocked, and its dependents wait. A task at the gate goes back to be made
    again, with the reason in its prompt; that counts as no failure.
    """
    row = get_task_row(tx, task)
    name = row_records.label(row)
    state = State(row["state"])
    if state in TERMINAL:
        raise AlreadyEnded(f"Task {name} is {state_word(state)} already and cannot be rejected.")
    if state is State.GATING:  # `withdraw` refuses an entry that is landing
        tx.event("task_rejected", row, now=now, reason=reason)
        back_to_its_maker(tx, row)
        give_up(tx, row)
        ready.send_back(tx, row, now=now, reason=reason)
        return State(get_task_row(tx, task)["state"])
    if row["agent"] != HUMAN:
        raise Refused(
            f"Task {name} is {state_word(state)}: only a task that is testing or asks you can be "
            f"rejected. `weft cancel {name}` stops it."
        )
    if state is State.WAITING:
        raise Refused(f"Task {name} is waiting: the tasks it needs have not landed.")
    ready.leave(tx, row, State.BLOCKED, now=now, reason=reason)
    tx.event("task_rejected", row, now=now, reason=reason)
    return State.BLOCKED


@writes
def pause(tx: Transaction, task: int, *, now: float) -> bool:
    """Keep a task from starting. Its claims stay; its running attempt continues.

    Return False for a task that has ended, is at the gate, or cannot start by itself anyway.
    """
    row = get_task_row(tx, task)
    if row["state"] not in _PAUSABLE:
        return False
    ready.leave(tx, row, State.PAUSED, now=now, reason="paused")
    tx.event("task_paused", row, now=now)
    for member in list_members(tx, task):
        pause(tx, member, now=now)
    return True


@writes
def resume(tx: Transaction, task: int, *, now: float) -> bool:
    """Let a paused task continue; return False if it is not paused."""
    row = get_task_row(tx, task)
    if row["state"] != State.PAUSED:
        return False
    tx.event("task_resumed", row, now=now)
    if _runs(tx, row):
        ready.leave(tx, row, State.RUNNING, now=now)
    else:
        ready.requeue(tx, row["id"], now=now)
    for member in list_members(tx, task):
        resume(tx, member, now=now)
    return True


def _runs(tx: Transaction, row: Row) -> bool:
    """Tell whether its latest attempt continues. A cancelled attempt may still have a process."""
    attempt = tx.one("attempt", task=row["id"], number=row["attempt"])
    return attempt is not None and attempt["ended"] is None


@reads
def get_task(tx: Transaction, task: int) -> Task:
    return row_records.task(get_task_row(tx, task))


@reads
def find_next_due(tx: Transaction) -> float | None:
    """Return the time of the next parked task, unanswered offer or preference."""
    at: float | None = tx.value("next_due")
    return at


@reads
def find_task(tx: Transaction, run: str, name: str) -> Task | None:
    row = tx.one("task_by_name", run=run, name=name)
    return None if row is None else row_records.task(row)


@reads
def list_tasks(
    tx: Transaction, states: Iterable[State] = tuple(State), *, after: int = 0, most: int = 1000
) -> list[Task]:
    """List tasks in these states, oldest first; the next page follows the last number."""
    numbers_found = [
        row["id"]
        for state in sorted(set(states))
        for row in numbers_in(tx, state, after=after, most=most)
    ]
    numbers = encode_keys(str(number) for number in sorted(numbers_found)[:most])
    return [row_records.task(row) for row in tx.all("tasks", ids=numbers)]


def numbers_in(tx: Transaction, state: State, *, after: int, most: int) -> Sequence[Row]:
    if state is State.READY:
        return tx.all("numbers_ready", after=after, most=most)
    if state is State.RUNNING:
        return tx.all("numbers_running", after=after, most=most)
    return tx.all("numbers_in", state=state, after=after, most=most)


@reads
def list_run(tx: Transaction, run: str) -> list[Task]:
    """List the tasks of a run in the order of its plan."""
    return [row_records.task(row) for row in tx.all("tasks_of_run", run=run)]


@reads
def list_run_attempts(tx: Transaction, run: str) -> list[Attempt]:
    return [row_records.attempt(row) for row in tx.all("attempts_of_run", run=run)]


@reads
def list_run_states(tx: Transaction, run: str) -> dict[int, tuple[str, float]]:
    """Map every task of a run to its state and the time it entered it."""
    return {row["id"]: (row["state"], row["since"]) for row in tx.all("states_of_run", run=run)}


@reads
def list_run_edges(tx: Transaction, run: str) -> list[tuple[int, int]]:
    """List the needs within a run, as (task, need)."""
    return [(row["task"], row["needs"]) for row in tx.all("edges_of_run", run=run)]


@reads
def find_tasks(tx: Transaction, numbers: Iterable[int]) -> tuple[list[Task], list[Attempt]]:
    """Return some tasks as they are now, and every attempt at them."""
    ids = encode_keys(str(number) for number in numbers)
    return (
        [row_records.task(row) for row in tx.all("tasks", ids=ids)],
        [row_records.attempt(row) for row in tx.all("attempts_at", tasks=ids)],
    )


@reads
def list_attempts(tx: Transaction, task: int) -> list[Attempt]:
    return [row_records.attempt(row) for row in tx.all("attempts_of", task=task)]


@reads
def list_needs(tx: Transaction, task: int) -> list[tuple[Task, str]]:
    """List the needs of a task, each with the commit of its latest attempt or ""."""
    rows = tx.all("needs_of", task=task)
    return [(row_records.task(row), row["commit_left"] or "") for row in rows]


@reads
def list_related_commits(tx: Transaction, task: int) -> list[str]:
    """List the bases and candidates that an attempt of a task may build on.

    They are those of the task, its needs, its parts, the other parts of its story, and the task
    that it continues.
    """
    continued = row_records.request(get_task_row(tx, task)).continues
    rows = tx.all("related_commits", task=task, continues=task if continued is None else continued)
    named = [commit for row in rows for commit in (row["base"], row["candidate"]) if commit]
    return list(dict.fromkeys(named))


@reads
def count_states(tx: Transaction) -> dict[State, int]:
    counts = {State(row["state"]): int(row["tasks"]) for row in tx.all("state_counts")}
    return {state: number for state, number in counts.items() if number}
