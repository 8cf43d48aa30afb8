"""An overview of the work that has not ended, for `weft ps`; and the facts that tell whether it can
continue without a person, for `runs.attention`.

The facts follow the rules that admit tasks. Imports little on purpose: `weft ps` must answer
quickly.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from weft.admission import capacity
from weft.admission.capacity import Shortage
from weft.model import HUMAN, SWARM, State
from weft.store import row_records
from weft.store.branch_landings import list_landed_branches
from weft.store.database import Row, Transaction, encode_keys
from weft.store.ledger import Ledger, PoolPlace
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
    ledger = Ledger(tx, now)
    leases = tx.all("leases_at_work")
    busy = {row["task"] for row in leases if row["task"] is not None}
    return Prospects(
        courses=tuple(_courses(tx, ledger, leases)),
        ready=tuple(_ready(tx, ledger, busy)),
        asked=tuple(
            row_records.record(
                AskedWork, row, task=row["id"], run=row["run"] or "", title=title(row)
            )
            for row in tx.all("tasks_for_people")
            if row["id"] not in busy
        ),
        stopped=ledger.stopped,
        drained=ledger.drained,
        places=(
            Places(capacity=ledger.nominal["runs"], used=ledger.used.get("runs", 0))
            if "runs" in ledger.nominal
            else None
        ),
    )


def _courses(tx: Transaction, ledger: Ledger, leases: Sequence[Row]) -> list[Course]:
    at_work = {row["run"] for row in leases}
    coming = {row["run"] or "" for row in tx.all("runs_coming_back")}
    entries = {(row["run"], row["state"]) for row in tx.all("runs_at_the_gate")}
    unended = {row["id"] for row in tx.all("runs_with_more")}
    runs = [
        Course(
            run=row["id"],
            waits=row["state"] == "waiting",
            gate=row["blocked"],
            untested=row["id"] in ledger.untested,
            at_work=row["id"] in at_work,
            comes_back=row["id"] in coming,
            queued=(row["id"], "queued") in entries,
            short=tuple(_lasting(ledger, {"requests": 1, f"gate:{row['id']}": 1})),
            landing=(row["id"], "landing") in entries,
            over=row["id"] not in unended,
        )
        for row in tx.all("unended_runs")
    ]
    return [Course(run="", at_work="" in at_work, comes_back="" in coming), *runs]


def _ready(tx: Transaction, ledger: Ledger, busy: set[int]) -> list[Ready]:
    rows = tx.all("ready_alike")
    holders = _holders(tx, {row["aside"] for row in rows} - {None}, busy)
    return [_alike(tx, ledger, row, holders.get(row["aside"])) for row in rows]


def _alike(tx: Transaction, ledger: Ledger, row: Row, holder: Holder | None) -> Ready:
    gang = tx.all("gang_members", gang=row["gang"]) if row["gang"] is not None else []
    demand = row_records.demand(row["demand"])
    agents = frozenset({row["agent"]} - {None})
    if gang:
        demand = capacity.add(*(row_records.demand(member["demand"]) for member in gang))
        agents = frozenset(member["agent"] for member in gang if member["agent"] is not None)
    short, unable = _lacking(ledger, row, demand, agents)
    labels = capacity.list_labels(demand)
    missing = () if unable else _missing_labels(ledger, row, agents, labels)
    labelled = _find_labelled(ledger, row, labels) if missing else None
    return Ready(
        run=row["run"] or "",
        task=row["id"],
        name=row["name"],
        human=row["agent"] == HUMAN,
        whole=all(member["state"] == State.READY for member in gang),
        short=tuple(short),
        unable=unable,
        labels=tuple(sorted(labels)) if missing else (),
        missing=missing,
        labelled="" if labelled is None else labelled.host,
        unequipped=() if labelled is None else tuple(sorted(agents - (labelled.agents or set()))),
        holder=holder,
    )


def _lacking(
    ledger: Ledger, row: Row, demand: Mapping[str, int], agents: frozenset[str]
) -> tuple[list[Shortage], str]:
    """Return the shortages at the worker with the fewest, and the agents that no worker can run.

    No present worker at all is no shortage: a worker may come.
    """
    if row["agent"] == HUMAN:
        return [], ""
    here = _able(ledger, row, frozenset())
    able = _able(ledger, row, agents)
    if not able:
        nobody = bool(here) and not row["repo"].startswith(SWARM)
        unable = ", ".join(sorted(agents)) if nobody else ""
        return _lasting(ledger, capacity.shared(demand)), unable
    labels = capacity.list_labels(demand)
    labelled = [place for place in able if labels <= place.labels] or able
    at_each = (capacity.resolve(demand, place.worker, place.host) for place in labelled)
    return min((_lasting(ledger, amounts) for amounts in at_each), key=len), ""


def _able(ledger: Ledger, row: Row, agents: frozenset[str]) -> list[PoolPlace]:
    """List the workers that may take a task and run these agents, whatever their labels are."""
    return [
        place
        for place in ledger.places.values()
        if place.can_run(agents, row["repo"]) and row["pinned"] in (None, place.worker)
    ]


def _missing_labels(
    ledger: Ledger, row: Row, agents: frozenset[str], labels: frozenset[str]
) -> tuple[str, ...]:
    """Return the labels that the nearest worker lacks; without a worker, all of them."""
    if not labels:
        return ()
    lacking = [sorted(labels - place.labels) for place in _able(ledger, row, agents)]
    nearest = min(lacking, key=len) if lacking else sorted(labels)
    return tuple(nearest)


def _find_labelled(ledger: Ledger, row: Row, labels: frozenset[str]) -> PoolPlace | None:
    """Find a worker that has all the labels, whatever agents it runs."""
    places = (place for place in _able(ledger, row, frozenset()) if labels <= place.labels)
    return min(places, key=lambda place: place.worker, default=None)


def _lasting(ledger: Ledger, demand: Mapping[str, int]) -> list[Shortage]:
    """List the shortages of a demand without other work and penalties of providers."""
    stopped = {f"agent:{agent}": 0 for agent in ledger.stopped}
    return capacity.shortages(demand, {**ledger.nominal, **stopped}, ledger.spent)


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


class WorkerView(Struct, frozen=True, kw_only=True):
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
    tasks: tuple[WorkerView, ...]  # all tasks that are not waiting, ready or ended
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


def view_of(row: Row) -> WorkerView:
    started = row["started"] if row["ended"] is None else None
    return row_records.record(
        WorkerView,
        row,
        title=title(row),
        worker=row["offered_to"] or row["worker"],
        started=started,
    )


def title(row: Row) -> str:
    given = json.loads(row["request"]).get("title") or row["text"]
    return next((line.strip() for line in str(given).splitlines() if line.strip()), row["name"])
