"""Runs: submitted whole, started while there is room, ended; and their history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Final

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from weft.admission import capacity
from weft.candidate_records import GateRows
from weft.config import RunSettings
from weft.errors import InputError, Refused
from weft.model import (
    TERMINAL,
    Attempt,
    Demand,
    Event,
    Lease,
    NewRun,
    NewTask,
    Run,
    TargetState,
    Task,
    TaskKind,
)
from weft.store import ready, row_records
from weft.store.database import Row, Transaction, encode
from weft.store.entries import landing_tasks
from weft.store.gate import read_gate
from weft.store.ledger import Ledger, NewLease, end_lease, write_lease
from weft.store.limit_table import refuse_unusable
from weft.store.projections import TARGET_BRANCH, NewProjection, add_projections
from weft.store.row_records import get_run_row
from weft.store.store import reads, writes
from weft.store.tasks import add_tasks, cancel, pause, resume

NO_SETTINGS: Final = RunSettings()
"""Settings of a run without agents and without a check."""

_TEMPLATES = {"run/agents": "agents", "run/teams": "teams"}


@writes
def submit_run(
    tx: Transaction,
    run: NewRun,
    tasks: Sequence[NewTask],
    *,
    settings: RunSettings = NO_SETTINGS,
    projections: Sequence[NewProjection] = (),
    now: float,
) -> dict[str, int]:
    """Submit a run with its tasks and settings; return the tasks' numbers by name.

    The run starts at once if `runs` has room, else when another run ends.
    """
    if not run.id or "/" in run.id:
        raise InputError(
            f"A run cannot be called {run.id!r}: its limits are named run:ID/…, so its id has "
            "at least one character, and no slash among them."
        )
    if tx.one("run", id=run.id) is not None:
        raise InputError(f"There is a run {run.id} already.")
    tx.run("add_run", run, submitted=now, alternates=encode(run.alternates))
    _add_settings(tx, run.id, settings, now=now)
    limits = _limits_of(tx, run)
    for resource, amount in limits.items():
        refuse_unusable(resource, amount)
        tx.run("set_limit", resource=resource, capacity=amount, owner=f"run:{run.id}")
    numbers = add_tasks(tx, tasks, run=run.id, repo=run.repo, tenant=run.tenant, now=now)
    work = sum(task.request.kind is TaskKind.WORK for task in tasks)
    # The limits are dropped with the run; the log keeps their values.
    tx.event("run_submitted", now=now, run=run.id, tasks=work, limits=limits)
    target = [NewProjection(name=TARGET_BRANCH)] if run.target else []
    add_projections(tx, run.id, [*projections, *target])
    start_waiting(tx, now=now)
    return numbers


def _add_settings(tx: Transaction, run: str, settings: RunSettings, *, now: float) -> None:
    own = {
        "known_red": settings.known_red,
        "agent": settings.agent,
        "prose": dict(settings.prose),
        "recorded": settings.recorded,
        "fast": settings.fast,
        "commit": to_builtins(settings.commit),
    }
    gate = {**to_builtins(settings.gate), **own}
    workspace = to_builtins(settings.workspace)
    parts = {"gate": gate, "workspace": workspace, "agents": dict(settings.agents)}
    texts = {name: encode(part) for name, part in parts.items()}
    tx.run("add_run_settings", run=run, revision=settings.revision, **texts, at=now)


@writes
def change_settings(
    tx: Transaction, run: str, settings: RunSettings, changes: Sequence[str], *, now: float
) -> bool:
    """Put other settings of a run in force; `changes` describes them in the event.

    Verdicts of another check no longer count. Return False if these settings are in force already.
    """
    row = get_run_row(tx, run)
    if row["state"] == "ended":
        raise Refused(f"Run {run} has ended already.")
    current = get_settings(tx, run)
    if replace(settings, revision=current.revision) == current:
        return False
    revision = current.revision + 1
    _add_settings(tx, run, replace(settings, revision=revision), now=now)
    tx.run("set_revision", id=run, revision=revision)
    check = settings.gate.run
    tx.event(
        "run_updated",
        now=now,
        run=run,
        revision=revision,
        check=None if check is None else list(check),
        changes=list(changes),
    )
    tx.wake()
    return True


@writes
def add_budget(tx: Transaction, run: str, micro_usd: int, *, now: float) -> None:
    """Set what a run may spend, in millionths of a dollar."""
    row = get_run_row(tx, run)
    if row["state"] == "ended":
        raise Refused(f"Run {run} has ended already.")
    resource = f"run:{run}/usd"
    refuse_unusable(resource, micro_usd)
    tx.run("set_limit", resource=resource, capacity=micro_usd, owner=f"run:{run}")
    tx.event("limit_set", now=now, resource=resource, capacity=micro_usd)
    tx.wake()


@reads
def get_settings(tx: Transaction, run: str) -> RunSettings:
    """Return the settings of a run that are in force."""
    get_run_row(tx, run)
    return row_records.run_settings(tx.all("current_settings", run=run)[0])


@reads
def list_settings(tx: Transaction, run: str) -> dict[int, RunSettings]:
    """Return every revision of a run's settings, by its number."""
    rows = tx.all("run_settings", run=run)
    return {row["revision"]: row_records.run_settings(row) for row in rows}


def _limits_of(tx: Transaction, run: NewRun) -> dict[str, int]:
    """Return the limits of a new run: the store's templates, then the run's own."""
    rows = {row["resource"]: int(row["capacity"]) for row in tx.all("limits")}
    limits = {f"gate:{run.id}": 1}
    for name, amount in rows.items():
        if name in _TEMPLATES:
            limits[f"run:{run.id}/{_TEMPLATES[name]}"] = amount
        elif name.startswith("stage/"):
            limits[f"stage:{run.id}/{name.removeprefix('stage/')}"] = amount
    for name, amount in run.limits.items():
        prefix = "stage:" if f"stage:{run.id}/{name}" in limits else "run:"
        limits[f"{prefix}{run.id}/{name}"] = amount
    return limits


def start_waiting(tx: Transaction, *, now: float) -> None:
    """Start the runs that wait for a place, oldest first, while there is room."""
    ledger = Ledger(tx, now)
    for row in tx.all("waiting_runs") if ledger.runs_wait else ():
        place = {"runs": 1}
        if capacity.shortages(place, ledger.effective, ledger.used):
            return
        ledger.enter(place)
        fence = ledger.next_fence()
        lease = NewLease(fence=fence, kind="run", holder=row["id"], granted=now, deadline=None)
        write_lease(tx, lease, encode(place))
        tx.run("set_run_state", id=row["id"], state="running")
        tx.event("run_started", now=now, run=row["id"], fence=fence)
        ready.settle(tx, [t["id"] for t in tx.all("waiting_tasks", run=row["id"])], now=now)


def _end(tx: Transaction, run: str, *, now: float) -> None:
    """End a run: free its place among the runs and drop its own limits."""
    tx.run("set_run_state", id=run, state="ended")
    for lease in tx.all("open_leases_held_by", kind="run", holder=run):
        end_lease(tx, lease, "ended", now=now)
    tx.run("drop_limits_of", owner=f"run:{run}")
    tx.event("run_ended", now=now, run=run)
    tx.wake()
    start_waiting(tx, now=now)


@writes
def end_finished(tx: Transaction, *, now: float) -> list[str]:
    """End every running run whose tasks have all ended; return them."""
    ended = []
    for row in tx.all("running_runs"):
        if tx.one("unended_task", run=row["id"]) is None:
            _end(tx, row["id"], now=now)
            ended.append(row["id"])
    return ended


@writes
def add_repair(tx: Transaction, run: str, task: NewTask, *, now: float) -> int:
    """Add a task to a run that has ended, and let the run go on; return the task's number."""
    row = get_run_row(tx, run)
    if row["state"] != "ended":
        raise Refused(f"Run {run} has not ended.")
    for resource, amount in get_limits_at_submission(tx, run).items():
        tx.run("set_limit", resource=resource, capacity=amount, owner=f"run:{run}")
    tx.run("set_run_state", id=run, state="waiting")
    added = add_tasks(tx, [task], run=run, repo=row["repo"], tenant=row["tenant"], now=now)
    [number] = added.values()
    tx.event("run_reopened", now=now, run=run, task=number, reason=task.request.title)
    start_waiting(tx, now=now)
    return number


@writes
def add_task(tx: Transaction, run: str, task: NewTask, *, now: float) -> int | None:
    """Add a task to a run, and let a run that has ended go on; return the task's number.

    Return None if the run has a task of this name: another process was faster.
    """
    if tx.one("task_by_name", run=run, name=task.name) is not None:
        return None
    row = get_run_row(tx, run)
    if row["state"] == "ended":
        return add_repair(tx, run, task, now=now)
    [number] = add_tasks(
        tx, [task], run=run, repo=row["repo"], tenant=row["tenant"], now=now
    ).values()
    ready.settle(tx, [number], now=now)
    return number


@reads
def get_limits_at_submission(tx: Transaction, run: str) -> dict[str, int]:
    """Return the limits with which a run was submitted."""
    [event] = [row for row in tx.all("events_of_run", run=run) if row["kind"] == "run_submitted"]
    limits: dict[str, int] = row_records.event(event).data["limits"]
    return limits


@writes
def cancel_run(
    tx: Transaction, run: str, *, now: float, reason: str = "cancelled"
) -> tuple[list[int], list[int]]:
    """Cancel the tasks of a run that have not ended, and end the run.

    Return the cancelled tasks, and those that are landing, which cannot be stopped: the run ends
    after them.
    """
    if get_run_row(tx, run)["state"] == "ended":
        return [], []
    landing = landing_tasks(tx, run)
    # Stories before their subtasks: the rest of a story would ask to land without them.
    rows = sorted(_unended(tx, run), key=lambda row: (row["story"] is not None, row["id"]))
    cancelled = [row["id"] for row in rows if row["id"] not in landing]
    for number in cancelled:
        cancel(tx, number, now=now, reason=reason)
    if not landing:
        _end(tx, run, now=now)
    return sorted(cancelled), sorted(landing)


@writes
def set_target(tx: Transaction, run: str, branch: str) -> None:
    """Set the branch that moves to the landed work of a run."""
    get_run_row(tx, run)
    tx.run("set_target", id=run, target=branch)
    add_projections(tx, run, [NewProjection(name=TARGET_BRANCH)])


@writes
def settle_target(
    tx: Transaction, run: str, branch: str, state: TargetState, text: str, *, now: float
) -> None:
    """Record the result for the branch of an ended run; ignore a branch that was replaced since."""
    row = get_run_row(tx, run)
    if row["target"] != branch or (row["target_state"], row["target_text"]) == (state, text):
        return
    tx.run("settle_target", id=run, state=state.value, text=text)
    tx.event("target_settled", now=now, run=run, branch=branch, state=state.value, text=text)


@writes
def pause_run(tx: Transaction, run: str, *, now: float) -> list[int]:
    """Keep the tasks of a run from starting; return the paused tasks.

    Attempts continue to their end, and entries at the gate land. A running task is paused too:
    neither its next stage nor its next attempt starts.
    """
    get_run_row(tx, run)
    return [row["id"] for row in _unended(tx, run) if pause(tx, row["id"], now=now)]


@writes
def resume_run(tx: Transaction, run: str, *, now: float) -> list[int]:
    """Let the paused tasks of a run continue; return them."""
    get_run_row(tx, run)
    return [row["id"] for row in _unended(tx, run) if resume(tx, row["id"], now=now)]


def _unended(tx: Transaction, run: str) -> list[Row]:
    return [row for row in tx.all("tasks_of_run", run=run) if row["state"] not in TERMINAL]


@writes
def learn_paths(tx: Transaction, seconds: Mapping[int, float]) -> None:
    """Store new estimates of the longest remaining path, by task."""
    tx.many("set_path", [{"id": i, "path_seconds": s} for i, s in sorted(seconds.items())])


@reads
def get_run(tx: Transaction, run: str) -> Run:
    return row_records.run(get_run_row(tx, run))


@reads
def list_runs(tx: Transaction) -> list[Run]:
    return [row_records.run(row) for row in tx.all("runs")]


@reads
def page_runs(tx: Transaction, *, after: str | None, most: int) -> tuple[list[Run], str | None]:
    """Return a page of runs after a run, newest first, and the last of it, or None at the end."""
    if after is not None:
        get_run_row(tx, after)
    rows = tx.all("runs_after", after=after, most=most + 1)
    runs = [row_records.run(row) for row in rows[:most]]
    return runs, runs[-1].id if len(rows) > most else None


class Use(Struct, frozen=True, kw_only=True):
    """The amounts that a lease took, current or past."""

    lease: Lease
    run: str | None  # for which it was
    amounts: Demand


class RunHistory(Struct, frozen=True, kw_only=True):
    """A run from its submission on, as the store remembers it."""

    run: Run
    tasks: tuple[Task, ...]
    needs: Mapping[int, tuple[int, ...]]
    attempts: tuple[Attempt, ...]
    gate: GateRows
    outputs: Mapping[int, str]  # output of failed checks, by number of the verdict
    events: tuple[Event, ...]  # of the run and of limits; no progress of agents
    uses: tuple[Use, ...]  # of attempts and checks meanwhile, those of other runs included
    limits: Mapping[str, int]  # as they are now


@reads
def read_history(tx: Transaction, run: str, *, now: float) -> RunHistory:
    row = get_run_row(tx, run)
    needs: dict[int, tuple[int, ...]] = {}
    for edge in tx.all("edges_of_run", run=run):
        needs[edge["task"]] = (*needs.get(edge["task"], ()), edge["needs"])
    return RunHistory(
        run=row_records.run(row),
        tasks=tuple(row_records.task(row) for row in tx.all("tasks_of_run", run=run)),
        needs=needs,
        attempts=tuple(row_records.attempt(row) for row in tx.all("attempts_of_run", run=run)),
        gate=read_gate(tx, run),
        outputs={row["number"]: row["output"] for row in tx.all("failed_outputs", run=run)},
        events=tuple(row_records.event(row) for row in tx.all("events_of_run", run=run)),
        uses=_uses(tx, since=row["submitted"], until=now),
        limits={row["resource"]: int(row["capacity"]) for row in tx.all("limits")},
    )


def _uses(tx: Transaction, *, since: float, until: float) -> tuple[Use, ...]:
    rows = tx.all("uses_between", since=since, until=until)
    return tuple(_use(list(group)) for _, group in groupby(rows, key=lambda row: row["fence"]))


def _use(rows: list[Row]) -> Use:
    lease = row_records.lease(rows[0])
    return Use(
        lease=lease,
        run=lease.holder if lease.kind == "check" else rows[0]["run"],
        amounts={row["resource"]: int(row["amount"]) for row in rows},
    )
