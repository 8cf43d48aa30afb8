"""An overview of the work that has not ended, for `weft ps`; and the facts that tell whether it can
continue without a person, for `runs.attention`.

The facts follow the rule that admits tasks.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from weft.admission import capacity, rule
from weft.admission.capacity import Shortage
from weft.admission.rule import PresentWorker, ReadyTask
from weft.model import HUMAN, SWARM, State
from weft.store import row_records
from weft.store.admission_rows import AdmissionRows
from weft.store.branch_landings import list_landed_branches
from weft.store.database import Row, Transaction, encode_keys
from weft.store.store import reads


class Course(Struct, frozen=True, kw_only=True):
    """A run that has not ended; "": the tasks of no run."""

    run: str
    waits: bool = False  # waits for a place among the runs
    untested: bool = False  # no agent starts before its gate has found the base in order
    gate: str = ""  # reason why its gate waits for a person
    at_work: bool = False  # an attempt or a check is under way
    comes_back: bool = False  # a task is parked or offered
    queued: bool = False  # an entry is queued
    short: tuple[Shortage, ...] = ()  # shortages of its gate and checks, without other work
    landing: bool = False
    over: bool = False  # all its tasks have ended


class Holder(Struct, frozen=True, kw_only=True):
    """A task that holds the files of waiting tasks, or for which they are kept free."""

    task: int
    run: str
    name: str
    stands: bool  # paused or blocked, without a running attempt


class Ready(Struct, frozen=True, kw_only=True):
    """Ready tasks of a run with the same demand and the same obstacle."""

    run: str
    task: int  # the first task
    name: str
    human: bool = False  # a person does them
    whole: bool = True  # False: some tasks of the gang are not ready
    short: tuple[Shortage, ...] = ()  # shortages without other work, at the worker with the fewest
    unable: str = ""  # agents that no present worker can run
    labels: tuple[str, ...] = ()  # labels it asks for, if no present worker has them all
    missing: tuple[str, ...] = ()  # those that the nearest worker lacks
    labelled: str = ""  # a host that has all of `labels`, but cannot run its agents
    unequipped: tuple[str, ...] = ()  # the agents that this host cannot run
    holder: Holder | None = None


class AskedWork(Struct, frozen=True, kw_only=True):
    """A task that waits for a person."""

    task: int
    run: str
    name: str
    title: str
    state: str
    reason: str
    since: float = 0.0  # time of the last change of state
    path_seconds: float = 0.0  # longest remaining path, this task included
    outcome: str | None = None  # of its latest attempt


class Places(Struct, frozen=True, kw_only=True):
    """Number of runs that may be under way at a time, and that are."""

    capacity: int
    used: int


class Prospects(Struct, frozen=True, kw_only=True):
    courses: tuple[Course, ...] = ()
    ready: tuple[Ready, ...] = ()
    asked: tuple[AskedWork, ...] = ()
    stopped: Mapping[str, str] = {}  # agents that must not start, with the reasons
    drained: float | None = None  # when admissions were stopped
    places: Places | None = None  # None: no limit


@reads
def read_prospects(tx: Transaction, *, now: float) -> Prospects:
    rows = AdmissionRows(tx, now)
    runs = rows.used.get("runs", 0)
    rows.forget_work()
    leases = tx.all("leases_at_work")
    busy = {row["task"] for row in leases if row["task"] is not None}
    return Prospects(
        courses=tuple(_courses(tx, rows, leases)),
        ready=tuple(_ready(tx, rows, busy)),
        asked=tuple(
            row_records.record(
                AskedWork, row, task=row["id"], run=row["run"] or "", title=title(row)
            )
            for row in tx.all("tasks_for_people")
            if row["id"] not in busy
        ),
        stopped=rows.stopped,
        drained=rows.drained,
        places=(
            Places(capacity=rows.nominal["runs"], used=runs) if "runs" in rows.nominal else None
        ),
    )


def _courses(tx: Transaction, rows: AdmissionRows, leases: Sequence[Row]) -> list[Course]:
    at_work = {row["run"] for row in leases}
    coming = {row["run"] or "" for row in tx.all("runs_coming_back")}
    entries = {(row["run"], row["state"]) for row in tx.all("runs_at_the_gate")}
    unended = {row["id"] for row in tx.all("runs_with_more")}
    runs = [
        Course(
            run=row["id"],
            waits=row["state"] == "waiting",
            gate=row["blocked"],
            untested=row["id"] in rows.untested,
            at_work=row["id"] in at_work,
            comes_back=row["id"] in coming,
            queued=(row["id"], "queued") in entries,
            short=tuple(rows.shortages_of({"requests": 1, f"gate:{row['id']}": 1})),
            landing=(row["id"], "landing") in entries,
            over=row["id"] not in unended,
        )
        for row in tx.all("unended_runs")
    ]
    return [Course(run="", at_work="" in at_work, comes_back="" in coming), *runs]


def _ready(tx: Transaction, rows: AdmissionRows, busy: set[int]) -> list[Ready]:
    alike = tx.all("ready_alike")
    holders = _holders(tx, {row["aside"] for row in alike} - {None}, busy)
    return [_alike(rows, row, holders.get(row["aside"])) for row in alike]


def _alike(rows: AdmissionRows, row: Row, holder: Holder | None) -> Ready:
    """Find the obstacles that a task would have without other work.

    No present worker at all is none: a worker may come.
    """
    task, human = rows.read_task(row), row["agent"] == HUMAN
    missing = [] if human else list(rule.find_missing_room(task, rows.workers.values(), rows))
    short = [obstacle.shortage for obstacle in missing if obstacle.shortage is not None]
    unable = ""
    labels: tuple[str, ...] = ()
    labelled: PresentWorker | None = None
    if missing and not short:
        short = capacity.shortages(capacity.shared(task.demand), rows.effective, rows.used)
        if _list_able(rows, task, frozenset()) and not task.repo.startswith(SWARM):
            unable = "" if _list_able(rows, task, task.agents) else ", ".join(sorted(task.agents))
        labels = () if unable else _missing_labels(rows, task)
        labelled = _find_labelled(rows, task) if labels else None
    return Ready(
        run=task.run or "",
        task=task.id,
        name=row["name"],
        human=human,
        whole=task.complete,
        short=tuple(short),
        unable=unable,
        labels=tuple(sorted(task.labels)) if labels else (),
        missing=labels,
        labelled="" if labelled is None else labelled.host,
        unequipped=()
        if labelled is None
        else tuple(sorted(task.agents - (labelled.agents or set()))),
        holder=holder,
    )


def _list_able(rows: AdmissionRows, task: ReadyTask, agents: frozenset[str]) -> list[PresentWorker]:
    """List the workers that may take a task and run these agents, whatever their labels are."""
    return [
        worker
        for worker in rows.workers.values()
        if worker.can_run(agents, task.repo) and task.pinned in (None, worker.id)
    ]


def _missing_labels(rows: AdmissionRows, task: ReadyTask) -> tuple[str, ...]:
    """Return the labels that the nearest worker lacks; without a worker, all of them."""
    able = _list_able(rows, task, task.agents)
    lacking = [sorted(task.labels - worker.labels) for worker in able]
    nearest = min(lacking, key=len) if lacking else sorted(task.labels)
    return tuple(nearest)


def _find_labelled(rows: AdmissionRows, task: ReadyTask) -> PresentWorker | None:
    """Find a worker that has all the labels, whatever agents it runs."""
    able = _list_able(rows, task, frozenset())
    labelled = (worker for worker in able if task.labels <= worker.labels)
    return min(labelled, key=lambda worker: worker.id, default=None)


def _holders(tx: Transaction, tasks: set[int], busy: set[int]) -> dict[int, Holder]:
    rows = tx.all("tasks", ids=encode_keys(map(str, sorted(tasks)))) if tasks else []
    standing = (State.PAUSED, State.BLOCKED)
    return {
        row["id"]: Holder(
            task=row["id"],
            run=row["run"] or "",
            name=row["name"],
            stands=row["state"] in standing and row["id"] not in busy,
        )
        for row in rows
    }


class AgentReport(Struct, frozen=True, kw_only=True):
    """The latest report of a task's agent."""

    task: int
    at: float
    data: Mapping[str, Any]


@reads
def list_latest_reports(tx: Transaction, tasks: Iterable[int]) -> dict[int, AgentReport]:
    """Map each task to the latest report of its agent."""
    rows = tx.all("latest_progress", tasks=encode_keys(map(str, tasks)))
    return {row["task"]: row_records.record(AgentReport, row, "data") for row in rows}


class TaskAtWork(Struct, frozen=True, kw_only=True):
    """A task in an overview."""

    id: int
    run: str | None
    name: str
    title: str
    state: str
    since: float
    reason: str
    until: float | None
    agent: str | None
    stage: str | None
    worker: str | None  # of its latest attempt
    attempt: int
    started: float | None  # start of its open attempt
    hops: int = 0  # hand-overs of the task


class Overview(Struct, frozen=True, kw_only=True):
    runs: Mapping[str, Mapping[str, int]]  # number of tasks by state; "": of no run
    waiting: tuple[str, ...]  # runs that wait for a place
    gates: Mapping[str, str]  # runs whose gate waits for a person, with the reasons
    tasks: tuple[TaskAtWork, ...]  # all tasks that are not waiting, ready or ended
    stopped: Mapping[str, str]  # agents that must not start, with the reasons
    drained: float | None  # when admissions were stopped
    ended: Mapping[str, Mapping[str, int]]  # of the last ended runs, newest first
    landed: Mapping[str, tuple[str, ...]]  # branches on which the ended runs were landed


@reads
def overview(tx: Transaction, *, most: int, ended: int = 3) -> Overview:
    """Read the work that has not ended, with the first `most` tasks at work or for a person, and
    the last `ended` runs."""
    runs = tx.all("unended_runs")
    counts: dict[str, dict[str, int]] = {row["id"]: {} for row in runs}
    for row in tx.all("counts_by_run"):
        counts.setdefault(row["run"] or "", {})[row["state"]] = int(row["tasks"])
    lately: dict[str, dict[str, int]] = {}
    for row in tx.all("ended_lately", most=ended):
        lately.setdefault(row["run"], {})[row["state"]] = int(row["tasks"])
    return Overview(
        runs=counts,
        waiting=tuple(row["id"] for row in runs if row["state"] == "waiting"),
        gates={row["id"]: row["blocked"] for row in runs if row["blocked"]},
        tasks=tuple(view_of(row) for row in tx.all("tasks_at_work", most=most)),
        stopped={row["agent"]: row["reason"] for row in tx.all("stopped_agents")},
        drained=tx.value("drained"),
        ended=lately,
        landed={run: tuple(list_landed_branches(tx, run)) for run in lately},
    )


def view_of(row: Row) -> TaskAtWork:
    started = row["started"] if row["ended"] is None else None
    return row_records.record(
        TaskAtWork,
        row,
        title=title(row),
        worker=row["offered_to"] or row["worker"],
        started=started,
    )


def title(row: Row) -> str:
    given = json.loads(row["request"]).get("title") or row["text"]
    return next((line.strip() for line in str(given).splitlines() if line.strip()), row["name"])
