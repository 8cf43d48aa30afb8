"""The explanation of a task's state, and the queue: waits, and places in line and at the gate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from shlex import quote

from msgspec import Struct

from weft.admission.order import QueueEntry as Ranked
from weft.admission.order import rank
from weft.candidate_records import CheckVerdict, Entry, MergeConflict
from weft.config import Tuning, WorkspaceSettings, command_line
from weft.formats import dollars, duration, first_line
from weft.model import TERMINAL, Attempt, Class, Event, Hop, Priority, State, Task, Wait, Worker
from weft.runs.host_list import find_hosts
from weft.runs.task_names import get_named_task
from weft.store import Store
from weft.store.attempt_end import list_hops
from weft.store.check_orders import OpenCheck, list_checks
from weft.store.gate import get_output, read_gate
from weft.store.limit_table import list_stopped
from weft.store.probe import order, probe, queue
from weft.store.runs import get_settings
from weft.store.store import reads
from weft.store.summaries import get_budget, list_open_entries, milestones
from weft.store.tasks import get_task, list_attempts
from weft.store.team_rows import TeamView, find_team
from weft.store.workers import find_workers
from weft.words import full_label


class RankPlace(Struct, frozen=True, kw_only=True):
    """The place of a ready task in the queue."""

    number: int  # from 1
    of: int
    ahead: tuple[int, ...]  # up to three tasks before it
    ahead_names: tuple[str, ...]
    reason: str


class AtGate(Struct, frozen=True, kw_only=True):
    """The latest entry of a task."""

    entry: Entry
    number: int | None  # place among the open entries, from 1; None: it is closed
    of: int
    verdicts: tuple[CheckVerdict, ...]
    outputs: Mapping[int, str]  # output of failed checks, by the verdict's number
    flaky: frozenset[int]  # numbers of verdicts whose tree also got the opposite verdict
    conflicts: tuple[MergeConflict, ...]
    blocked: str  # reason for which the gate waits for a person
    names: Mapping[str, str]  # names of the tasks of each entry mentioned
    check: OpenCheck | None  # the check of this entry that is under way
    reproductions: Mapping[int, Reproduction]  # of failed checks, by the verdict's number


class Reproduction(Struct, frozen=True, kw_only=True):
    """The command that failed, and a shell line that runs it again on the same tree."""

    command: str
    line: str


class Explanation(Struct, frozen=True, kw_only=True):
    task: Task
    waits: tuple[Wait, ...]
    obstacles: tuple[str, ...]  # a stopped agent or an empty budget, if no wait names it
    place: RankPlace | None
    gate: AtGate | None
    attempts: tuple[Attempt, ...]
    hops: tuple[Hop, ...]
    holder: Worker | None  # worker of the running attempt
    events: tuple[Event, ...]  # without admissions and reports of agents
    team: TeamView | None = None
    hosts: Mapping[str, str] = {}  # worker hosts of the attempts, by worker; without home


@reads
def explain_task(store: Store, name: str, *, now: float) -> Explanation:
    task = get_named_task(store, name)
    attempts = list_attempts(store, task.id)
    waits = tuple(probe(store, task.id, now=now))
    return Explanation(
        task=task,
        waits=waits,
        obstacles=tuple(_obstacles(store, task, waits, now)),
        place=_place(store, task, now) if task.state is State.READY else None,
        gate=_at_gate(store, task) if task.run is not None else None,
        attempts=tuple(attempts),
        hops=tuple(list_hops(store, task.id)),
        holder=_find_holder(store, attempts, now),
        events=tuple(milestones(store, task.id)),
        team=find_team(store, task.id),
        hosts=find_hosts(store, attempts, now=now),
    )


def _obstacles(store: Store, task: Task, waits: Sequence[Wait], now: float) -> Iterator[str]:
    """Name a stopped agent and an empty budget of a task that has not ended."""
    if task.state in TERMINAL:
        return
    named = " ".join(wait.text for wait in waits)
    reason = list_stopped(store, now=now).get(task.agent or "")
    if reason is not None and f"agent {task.agent} is stopped" not in named:
        cure = f"`weft agents test {task.agent}` tries it and starts it again"
        yield f"agent {task.agent} is stopped: {first_line(reason)} ({cure})"
    asked = task.demand.get(f"run:{task.run}/usd")
    if task.run is None or asked is None or f"the budget of {task.run}" in named:
        return
    budget = get_budget(store, task.run)
    if budget.cap is not None and budget.spent + asked > budget.cap:
        yield (
            f"the budget of {task.run} is empty: {dollars(budget.spent)} of {dollars(budget.cap)} "
            f"is spent, and an attempt reserves {dollars(asked)} "
            f"(`weft limits set run:{task.run}/usd DOLLARS` raises it)"
        )


def _find_holder(store: Store, attempts: Sequence[Attempt], now: float) -> Worker | None:
    at = [attempt.worker for attempt in attempts if attempt.ended is None]
    return next(iter(find_workers(store, at, now=now).values()), None) if at else None


def _place(store: Store, task: Task, now: float) -> RankPlace | None:
    numbers = order(store, now=now)
    if task.id not in numbers:
        return None  # the task was admitted a moment ago
    index = numbers.index(task.id)
    ahead = numbers[max(0, index - 3) : index]
    return RankPlace(
        number=index + 1,
        of=len(numbers),
        ahead=tuple(ahead),
        ahead_names=tuple(full_label(get_task(store, number)) for number in ahead),
        reason=_explain_rank(task, now, store.tuning),
    )


def _explain_rank(task: Task, now: float, tuning: Tuning) -> str:
    """Name the reasons for a task's place, the strongest first."""
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
        words.append(f"{duration(task.path_seconds)} of work on its longest path")
    return ", ".join([*words, f"submitted {duration(age)} ago"])


def _aged(name: str, declared: str, aged: str) -> str:
    by_age = "" if declared == aged else f" (by age: {aged.lower()})"
    return f"{name} {declared.lower()}{by_age}"


def _at_gate(store: Store, task: Task) -> AtGate | None:
    assert task.run is not None
    rows = read_gate(store, task.run)
    own = [entry for entry in rows.entries if task.id in entry.tasks]
    if not own:
        return None
    entry = own[-1]
    open_entries = [row.id for row in rows.entries if row.state in ("queued", "landing")]
    verdicts = [verdict for verdict in rows.verdicts if entry.id in verdict.combination]
    conflicts = [conflict for conflict in rows.conflicts if conflict.entry == entry.id]
    mentioned = {id for verdict in verdicts for id in verdict.combination}
    mentioned |= {id for conflict in conflicts for id in conflict.after} | {entry.id}
    checks = list_checks(store, task.run)
    check = next((check for check in checks if entry.id in check.entries), None)
    mentioned |= set(check.entries) if check else set()
    settings = get_settings(store, task.run).workspace
    return AtGate(
        entry=entry,
        number=open_entries.index(entry.id) + 1 if entry.id in open_entries else None,
        of=len(open_entries),
        verdicts=tuple(verdicts),
        outputs={
            verdict.number: get_output(store, task.run, verdict.number)
            for verdict in verdicts
            if not verdict.passed
        },
        flaky=rows.flaky,
        conflicts=tuple(conflicts),
        blocked=rows.blocked,
        names=name_entries(store, [row for row in rows.entries if row.id in mentioned]),
        check=check,
        reproductions={
            verdict.number: reproduce(verdict, settings)
            for verdict in verdicts
            if not verdict.passed and verdict.commands
        },
    )


def reproduce(verdict: CheckVerdict, settings: WorkspaceSettings) -> Reproduction:
    """Return the failed command and a shell line for it, to be run at the root of the checkout.

    The line unpacks the checked tree beside the checkout and brings what `[workspace]` brings.
    """
    command = command_line(verdict.commands[-1])
    brought = [f'cp -R "$OLDPWD"/{quote(path)} {quote(path)}' for path in settings.copy]
    brought += [f'ln -s "$OLDPWD"/{quote(path)} {quote(path)}' for path in settings.link]
    setup = [command_line(settings.setup)] if settings.setup else []
    unpack = f'd=$(mktemp -d) && git archive {verdict.tree[:12]} | tar -x -C "$d" && cd "$d"'
    return Reproduction(command=command, line=" && ".join([unpack, *brought, *setup, command]))


class QueueView(Struct, frozen=True, kw_only=True):
    ready: tuple[tuple[Task, tuple[Wait, ...]], ...]  # the first tasks, in order
    count: int  # of all ready tasks
    entries: tuple[Entry, ...]  # open entries by run, in order of arrival
    names: Mapping[str, str]  # names of the tasks of each entry


@reads
def read_queue(store: Store, *, now: float, most: int) -> QueueView:
    first, count = queue(store, now=now, most=most)
    entries = list_open_entries(store)
    return QueueView(
        ready=tuple((task, tuple(waits)) for task, waits in first),
        count=count,
        entries=tuple(entries),
        names=name_entries(store, entries),
    )


def name_entries(store: Store, entries: Sequence[Entry]) -> dict[str, str]:
    """Return the names of each entry's tasks, joined."""
    return {
        entry.id: " + ".join(get_task(store, task).name for task in entry.tasks)
        for entry in entries
    }
