"""What people look at: why a task is where it is, what comes next, what it all cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from weft.admission.order import QueueEntry as Ranked
from weft.admission.order import rank
from weft.config import Tuning
from weft.model import (
    Attempt,
    CheckVerdict,
    Class,
    Entry,
    Event,
    MergeConflict,
    Priority,
    State,
    Task,
    Wait,
    Worker,
)
from weft.runs.task_names import name_run, name_task
from weft.store import Store
from weft.store.gate import get_output, read_gate
from weft.store.probe import order, probe, queue
from weft.store.runs import list_runs, page_runs
from weft.store.store import reads
from weft.store.summaries import (
    Cost,
    RunBudget,
    get_budget,
    list_costs,
    list_open_entries,
    milestones,
)
from weft.store.tasks import get_task, list_attempts
from weft.store.workers import list_silent


class RankPlace(Struct, frozen=True, kw_only=True):
    """Where a ready task stands in the order; told to a tenant, among its own."""

    number: int  # from 1
    of: int
    ahead: tuple[int, ...]  # the few right before it
    reason: str


class AtGate(Struct, frozen=True, kw_only=True):
    """What a task asked to land with, the latest time."""

    entry: Entry
    number: int | None  # its place among what asks to land, from 1; None: it no longer does
    of: int
    verdicts: tuple[CheckVerdict, ...]
    outputs: Mapping[int, str]  # what failed checks printed, by the verdict's number
    flaky: frozenset[int]  # verdicts, by number, on what was found otherwise as well
    conflicts: tuple[MergeConflict, ...]
    blocked: str  # why the gate waits for a person
    names: Mapping[str, str]  # what people call the tasks of the entries in question


class Explanation(Struct, frozen=True, kw_only=True):
    task: Task
    waits: tuple[Wait, ...]
    place: RankPlace | None
    gate: AtGate | None
    attempts: tuple[Attempt, ...]
    silent: Worker | None  # the worker of the running attempt, if it gives no sign of life
    events: tuple[Event, ...]  # without admissions and what agents said


@reads
def why(store: Store, name: str, *, now: float, tenant: str | None = None) -> Explanation:
    """Where a task is; `tenant` is who may see no others' tasks."""
    task = name_task(store, name)
    attempts = list_attempts(store, task.id)
    return Explanation(
        task=task,
        waits=tuple(probe(store, task.id, now=now, tenant=tenant)),
        place=_place(store, task, now, tenant) if task.state is State.READY else None,
        gate=_at_gate(store, task) if task.run is not None else None,
        attempts=tuple(attempts),
        silent=_silent(store, attempts, now),
        events=tuple(milestones(store, task.id)),
    )


def _silent(store: Store, attempts: Sequence[Attempt], now: float) -> Worker | None:
    at = {one.worker for one in attempts if one.ended is None}
    return next((one for one in list_silent(store, now=now) if one.id in at), None)


def _place(store: Store, task: Task, now: float, tenant: str | None) -> RankPlace | None:
    numbers = order(store, now=now, tenant=tenant)
    if task.id not in numbers:
        return None  # it was admitted in this moment
    index = numbers.index(task.id)
    return RankPlace(
        number=index + 1,
        of=len(numbers),
        ahead=tuple(numbers[max(0, index - 3) : index]),
        reason=explain_rank(task, now, store.tuning),
    )


def explain_rank(task: Task, now: float, tuning: Tuning) -> str:
    """What a task's place follows from, in the order in which it counts."""
    ranked = Ranked(
        id=task.id,
        klass=task.klass,
        priority=task.priority,
        path_seconds=task.path_seconds,
        submitted=task.submitted,
    )
    klass, priority, *_ = rank(ranked, now, tuning)
    age = max(0.0, now - task.submitted)
    words = [
        _aged("class", task.klass.name, Class(klass).name),
        _aged("priority", task.priority.name, Priority(priority).name),
    ]
    if task.path_seconds:
        words.append(f"{task.path_seconds:.0f} s of work on its longest path")
    return ", ".join([*words, f"submitted {age:.0f} s ago"])


def _aged(what: str, declared: str, aged: str) -> str:
    now_so = "" if declared == aged else f" (by age: {aged.lower()})"
    return f"{what} {declared.lower()}{now_so}"


def _at_gate(store: Store, task: Task) -> AtGate | None:
    assert task.run is not None
    rows = read_gate(store, task.run)
    asked = [one for one in rows.entries if task.id in one.tasks]
    if not asked:
        return None
    entry = asked[-1]
    waiting = [one.id for one in rows.entries if one.state in ("queued", "landing")]
    verdicts = [one for one in rows.verdicts if entry.id in one.combination]
    conflicts = [one for one in rows.conflicts if one.entry == entry.id]
    named = {one for verdict in verdicts for one in verdict.combination}
    named |= {one for conflict in conflicts for one in conflict.others} | {entry.id}
    return AtGate(
        entry=entry,
        number=waiting.index(entry.id) + 1 if entry.id in waiting else None,
        of=len(waiting),
        verdicts=tuple(verdicts),
        outputs={
            one.number: get_output(store, task.run, one.number)
            for one in verdicts
            if not one.passed
        },
        flaky=rows.flaky,
        conflicts=tuple(conflicts),
        blocked=rows.blocked,
        names=name_entries(store, [one for one in rows.entries if one.id in named]),
    )


def name_entries(store: Store, entries: Sequence[Entry]) -> dict[str, str]:
    """What people call that which asks to land: the names of its tasks."""
    return {one.id: " + ".join(get_task(store, task).name for task in one.tasks) for one in entries}


class QueueView(Struct, frozen=True, kw_only=True):
    ready: tuple[tuple[Task, tuple[Wait, ...]], ...]  # the first ones, in order
    count: int  # how many there are
    entries: tuple[Entry, ...]  # what asks to land, by run, in order of arrival
    names: Mapping[str, str]


@reads
def look_at_queue(store: Store, *, now: float, most: int, tenant: str | None = None) -> QueueView:
    """What comes next of everything, or of what is one tenant's."""
    first, count = queue(store, now=now, most=most, tenant=tenant)
    entries = list_open_entries(store)
    if tenant is not None:
        own = {run.id for run in list_runs(store) if run.tenant == tenant}
        entries = [one for one in entries if one.run in own]
    return QueueView(
        ready=tuple((task, tuple(waits)) for task, waits in first),
        count=count,
        entries=tuple(entries),
        names=name_entries(store, entries),
    )


class RunCost(Struct, frozen=True, kw_only=True):
    run: str | None  # None: what belongs to no run
    budget: RunBudget | None
    costs: tuple[Cost, ...]

    @property
    def tokens(self) -> int:
        return sum(one.tokens for one in self.costs)

    @property
    def micro_usd(self) -> int:
        return sum(one.micro_usd for one in self.costs)


@reads
def look_at_costs(store: Store, name: str | None) -> list[RunCost]:
    """What one run took, or every run and what belongs to none."""
    if name is not None:
        return [get_cost(store, name_run(store, name).id)]
    found = [get_cost(store, run.id) for run in list_runs(store)]
    rest = list_costs(store, None)
    return [*found, RunCost(run=None, budget=None, costs=tuple(rest))] if rest else found


def page_costs(
    store: Store, *, tenant: str | None, after: str | None, most: int
) -> tuple[list[RunCost], str | None]:
    """What a page of runs took, newest first, and the run to ask on with; None: that was all.

    What belongs to no run comes last, and is told to no tenant.
    """
    runs, more = page_runs(store, tenant=tenant, after=after, most=most)
    found = [get_cost(store, run.id) for run in runs]
    rest = list_costs(store, None) if more is None and tenant is None else []
    return [*found, RunCost(run=None, budget=None, costs=tuple(rest))] if rest else found, more


def get_cost(store: Store, run: str) -> RunCost:
    """What the run of this id took."""
    return RunCost(run=run, budget=get_budget(store, run), costs=tuple(list_costs(store, run)))
