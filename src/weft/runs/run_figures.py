"""The figures of a run: its times, attempts and costs, and its waits for people and providers."""

from __future__ import annotations

import heapq
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from weft.candidate_records import GateRows
from weft.formats import duration
from weft.model import HUMAN, MET, TERMINAL, Attempt, Event, State, Task, TaskKind
from weft.planning.forecast import WHOLE, ScheduleBounds
from weft.store import Store
from weft.store.event_log import list_of_kind

DAY: Final = 86_400.0  # a longer attempt says that a clock jumped or that its machine slept
_BREAK: Final = 60.0  # seconds without an attempt, a check or a wait: nobody was at work
_WORTH_SAYING: Final = 60.0  # seconds of a run
_LONGEST_CHAIN: Final = 6  # names of a chain that are shown

Span = tuple[float, float]
"""The start and the end of something, in seconds."""


def pack_lanes(spans: Sequence[Span]) -> list[int]:
    """Return the lowest free lane for each span of time; spans come in any order."""
    lanes = [0] * len(spans)
    busy: list[tuple[float, int]] = []
    free: list[int] = []
    for number in sorted(range(len(spans)), key=lambda number: spans[number]):
        start, end = spans[number]
        while busy and busy[0][0] <= start:
            heapq.heappush(free, heapq.heappop(busy)[1])
        lanes[number] = heapq.heappop(free) if free else len(busy)
        heapq.heappush(busy, (end, lanes[number]))
    return lanes


class RunFigures(Struct, frozen=True, kw_only=True):
    tasks: int
    landed: int
    whole: bool  # every task is done or skipped
    ran: float  # seconds from the first start to the last end in which weft was at work
    waited: float  # of these, waits for people in which no agent and no check ran
    sequential: float  # seconds of the settled attempts and a check for each landing, one by one
    slots: int  # agents at a time, at most
    attempts: int
    failed: int
    retries: int
    checks: int
    flaky: int  # checks whose tree got the opposite verdict before
    check_seconds: float
    sent_back: int
    conflicts: int
    tokens: int
    micro_usd: int

    @property
    def makespan(self) -> float:
        """Return the seconds that the run would have taken without waits for people."""
        return self.ran - self.waited


def describe_times(figures: RunFigures) -> str:
    """Return the times of a run as a sentence; nothing for a run of less than a minute."""
    if figures.ran < _WORTH_SAYING:
        return ""
    parts = [f"ran {duration(figures.ran)}"]
    if figures.waited >= 1:
        took = duration(figures.makespan)
        parts.append(f"without waiting for you it would have taken {took}")
    if figures.whole and duration(figures.sequential) != duration(figures.ran):
        parts.append(f"one by one {duration(figures.sequential)}")
    return "; ".join(parts)


def measure_run(
    tasks: Sequence[Task],
    attempts: Sequence[Attempt],
    gate: GateRows,
    *,
    slots: int,
    now: float,
    waits: Sequence[Span] = (),
    parked: Sequence[Span] = (),
    checks_run: Sequence[Span] = (),
) -> RunFigures:
    """Compute the figures of a run; attempts under way count until `now`.

    `slots` is the number of attempts that may run at once, if not more really did. `waits` are the
    times in which a task was paused or needed a person, `parked` those in which it waited for a
    provider, `checks_run` those of checks. Dead time is no part of a run: an attempt whose weft
    died, an attempt longer than a day, a minute without anything under way.
    """
    spans = [span for attempt in attempts if (span := find_work(attempt, now=now)) is not None]
    busy = [*spans, *checks_run]
    ends = [end for _, end in busy] + [task.since for task in tasks if task.state in TERMINAL]
    began = min((start for start, _ in busy), default=0.0)
    within = (began, max(ends, default=0.0))
    slots = max(1, slots, *(lane + 1 for lane in pack_lanes(spans)))
    breaks = find_breaks([*busy, *waits, *parked], within, _BREAK)
    ran = within[1] - began - sum(end - start for start, end in breaks) if busy else 0.0
    settled = [
        find_work(attempt, now=now) or (0.0, 0.0)
        for attempt in attempts
        if attempt.led_to is not None
    ]
    work = {task.id for task in tasks if task.request.kind is TaskKind.WORK}
    landed = {entry for row in gate.landings if row.state == "landed" for entry in row.entries}
    checks = [
        verdict.seconds for verdict in gate.verdicts if verdict.checked and verdict.seconds > 0
    ]
    landed_tasks = {
        task for entry in gate.entries if entry.id in landed for task in (*entry.tasks, entry.story)
    }
    landed_work = len(landed_tasks & work)
    usual_check = statistics.median(checks) if checks else 0.0
    return RunFigures(
        tasks=len(work),
        landed=landed_work,
        whole=all(task.state in MET for task in tasks),
        ran=ran,
        waited=measure_idle(waits, busy, within) if busy else 0.0,
        sequential=sum(end - start for start, end in settled) + landed_work * usual_check,
        slots=slots,
        attempts=len(attempts),
        failed=sum(attempt.failed for attempt in attempts),
        retries=len(attempts) - len({(attempt.task, attempt.stage) for attempt in attempts}),
        checks=len(checks),
        flaky=len(gate.flaky),
        check_seconds=sum(checks),
        sent_back=sum(entry.state == "rejected" for entry in gate.entries),
        conflicts=len({conflict.entry for conflict in gate.conflicts}),
        tokens=sum(attempt.tokens for attempt in attempts),
        micro_usd=sum(attempt.micro_usd for attempt in attempts),
    )


def find_work(attempt: Attempt, *, now: float) -> Span | None:
    """Return the time in which an attempt was at work, or None if that is not known.

    An attempt whose weft died ended at a time that nobody saw.
    """
    end = now if attempt.ended is None else attempt.ended
    if attempt.outcome == "reaped" or not 0 <= end - attempt.started <= DAY:
        return None
    return attempt.started, end


def find_breaks(spans: Iterable[Span], within: Span, longest: float) -> list[Span]:
    """List the times of more than `longest` seconds in which no span lies."""
    breaks = []
    reached = within[0]
    for start, end in sorted([*spans, (within[1], within[1])]):
        if start - reached > longest:
            breaks.append((reached, start))
        reached = max(reached, end)
    return breaks


def measure_idle(waits: Sequence[Span], busy: Sequence[Span], within: Span) -> float:
    """Return the seconds of waits in which nothing ran."""
    steps: list[tuple[float, int, int]] = []  # time, change of waits, change of busy spans
    for spans, wait in ((waits, 1), (busy, 0)):
        for span in spans:
            start, end = max(span[0], within[0]), min(span[1], within[1])
            if start < end:
                steps += [(start, wait, 1 - wait), (end, -wait, wait - 1)]
    idle, waiting, running, before = 0.0, 0, 0, within[0]
    for at, wait, run in sorted(steps):
        if waiting and not running:
            idle += at - before
        waiting, running, before = waiting + wait, running + run, at
    return idle


def list_successors(tasks: Sequence[Task], edges: Sequence[tuple[int, int]]) -> list[list[int]]:
    """Turn edges (task, needed task) into the places of each task's successors."""
    place = {task.id: node for node, task in enumerate(tasks)}
    successors: list[list[int]] = [[] for _ in tasks]
    for after, before in edges:
        if after in place and before in place:
            successors[place[before]].append(place[after])
    return successors


def explain_bound(bounds: ScheduleBounds, chain: Sequence[str]) -> str:
    """Return the reason for a lower bound; `chain` is the longest path."""
    if bounds.lower == bounds.critical_path:
        shown = chain if len(chain) <= _LONGEST_CHAIN else (*chain[:5], "…", chain[-1])
        return "the path " + " → ".join(shown) if len(shown) > 1 else "its longest task"
    if bounds.lower == bounds.busiest_file:
        whole = bounds.file == WHOLE
        return "what may change any file" if whole else f"all that changes {bounds.file}"
    return "all slots busy"


_KINDS: Final = (
    *("attempt_finished", "task_blocked", "task_paused", "task_resumed", "task_reopened"),
    *("task_approved", "task_skipped", "task_cancelled"),
)
_WAITS: Final = frozenset({State.BLOCKED, State.PAUSED})


def read_waits(
    store: Store,
    run: str,
    tasks: Sequence[Task],
    edges: Sequence[tuple[int, int]],
    attempts: Sequence[Attempt],
    *,
    now: float,
) -> tuple[list[Span], list[Span]]:
    """List the times in which a task of a run waited for a person, and for a provider."""
    events = [event for kind in _KINDS for event in list_of_kind(store, run, kind)]
    return find_waits(events, tasks, edges, attempts, now=now)


def find_waits(
    events: Iterable[Event],
    tasks: Sequence[Task],
    edges: Sequence[tuple[int, int]],
    attempts: Sequence[Attempt],
    *,
    now: float,
) -> tuple[list[Span], list[Span]]:
    waits: list[Span] = []
    parked: list[Span] = []
    open_waits: dict[int, float] = {}
    for event in sorted(events, key=lambda event: event.id):
        task = event.task or 0
        began = open_waits.pop(task, None)
        if began is not None:
            waits.append((began, event.at))
        if _begins_wait(event):
            open_waits[task] = event.at
        if event.kind == "attempt_finished" and event.data["state"] == State.PARKED:
            parked.append((event.at, _next_start(task, event.at, attempts, now)))
    waits += [(began, now) for began in open_waits.values()]
    return [*waits, *_questions(tasks, edges, now)], parked


def _begins_wait(event: Event) -> bool:
    if event.kind == "attempt_finished":
        return event.data["state"] in _WAITS
    return event.kind in ("task_blocked", "task_paused")


def _next_start(task: int, after: float, attempts: Sequence[Attempt], now: float) -> float:
    starts = [
        attempt.started for attempt in attempts if attempt.task == task and attempt.started >= after
    ]
    return min(starts, default=now)


def _questions(
    tasks: Sequence[Task], edges: Sequence[tuple[int, int]], now: float
) -> Iterable[Span]:
    """Yield the times in which a task asked a person, from the landing of its last need."""
    ended = {task.id: task.since for task in tasks if task.state in (State.DONE, State.SKIPPED)}
    for task in tasks:
        if task.agent != HUMAN or task.state is State.WAITING:
            continue
        needs = [ended.get(need, task.submitted) for after, need in edges if after == task.id]
        yield max(needs, default=task.submitted), now if task.state is State.READY else task.since


class Holdup(Struct, frozen=True, kw_only=True):
    holder: Task
    waiting: tuple[Task, ...]  # tasks that cannot start before it has landed


def list_holdups(tasks: Iterable[Task], edges: Sequence[tuple[int, int]]) -> list[Holdup]:
    """List the tasks that hold up tasks, those with the most waiting tasks first.

    A waiting task holds up none: the task it waits for does. A ready task waits for room, and so
    do the tasks behind it.
    """
    known = {task.id: task for task in tasks}
    needed_by: dict[int, list[int]] = {}
    for task, need in edges:
        if task in known and known[task].state is State.WAITING:
            needed_by.setdefault(need, []).append(task)
    holdups = []
    for holder in known.values():
        if holder.id not in needed_by or not _holds_up(holder):
            continue
        behind = [known[task] for task in list_reachable(holder.id, needed_by)]
        work = [task for task in behind if task.request.kind is TaskKind.WORK]
        if work:
            holdups.append(Holdup(holder=holder, waiting=tuple(work)))
    return sorted(holdups, key=lambda holdup: (-len(holdup.waiting), holdup.holder.id))


def _holds_up(task: Task) -> bool:
    if task.state is State.READY:
        return task.agent == HUMAN
    return task.state not in (State.WAITING, State.DONE, State.SKIPPED)


def list_reachable(start: int, successors: Mapping[int, Sequence[int]]) -> list[int]:
    """List the tasks behind a task, directly or through others, by number."""
    seen: dict[int, None] = {}
    left = [start]
    while left:
        for after in successors.get(left.pop(), ()):
            if after not in seen:
                seen[after] = None
                left.append(after)
    return sorted(seen)
