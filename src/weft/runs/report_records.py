"""Records of a report, and the use of limits and the waits in it. Pure.

All times are seconds since the run was submitted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import Struct

from weft.admission.capacity import is_consumable
from weft.model import HUMAN, TERMINAL, Attempt, Event, State, Task, TaskKind
from weft.runs.run_figures import RunFigures
from weft.store.runs import RunHistory

_LEFT_OUT: Final = ("gate:", "agent:", "host:")
"""Prefixes of limits that no slot counts, or that repeat another limit."""


class UseStep(Struct, frozen=True, kw_only=True):
    """Amounts in use from a moment on, by the run and by other runs."""

    at: float
    own: int
    other_runs: int


class LimitUse(Struct, frozen=True, kw_only=True):
    """A limit over the time of a run, in seconds since its submission."""

    resource: str
    limits: tuple[tuple[float, int | None], ...]  # (start, limit); None: no limit
    steps: tuple[UseStep, ...]
    penalties: tuple[float, ...]  # moments at which its provider was busy
    peak: int
    average: float  # amount in use by the run

    @property
    def limit(self) -> int | None:
        """Return the highest value of the limit."""
        return max((limit for _, limit in self.limits if limit is not None), default=None)


def over_time(past: RunHistory, *, until: float) -> tuple[LimitUse, ...]:
    """Return every limit that the run used, its own limits first."""
    names = {name for use in past.uses if use.run == past.run.id for name in use.amounts}
    kept = [name for name in names if not name.startswith(_LEFT_OUT) and not is_consumable(name)]
    return tuple(_limit_use(past, name, until) for name in sorted(kept, key=_place))


def most_at_once(past: RunHistory, uses: tuple[LimitUse, ...]) -> int:
    """Return the lowest limit that every attempt counts against."""
    own = [use for use in past.uses if use.run == past.run.id and use.lease.kind == "attempt"]
    shared = [
        limit.limit
        for limit in uses
        if limit.limit is not None and all(limit.resource in use.amounts for use in own)
    ]
    return min(shared, default=max((limit.peak for limit in uses), default=1))


def _place(resource: str) -> tuple[int, str]:
    families = ("run:", "stage:", "llm", "requests", "provider:", "worker:")
    family = (n for n, prefix in enumerate(families) if resource.startswith(prefix))
    return next(family, len(families)), resource


def _limit_use(past: RunHistory, resource: str, until: float) -> LimitUse:
    zero = past.run.submitted
    steps = tuple(_steps(past, resource, until))
    ends = [step.at for step in steps[1:]] + [until - zero]
    used = sum(step.own * (end - step.at) for step, end in zip(steps, ends, strict=True))
    provider = resource.removeprefix("provider:") if resource.startswith("provider:") else None
    return LimitUse(
        resource=resource,
        limits=tuple(_limits(past, resource)),
        steps=steps,
        penalties=tuple(
            event.at - zero
            for event in past.events
            if event.kind == "provider_penalised"
            and event.data["provider"] == provider
            and zero <= event.at <= until
        ),
        peak=max((step.own for step in steps), default=0),
        average=used / (until - zero) if until > zero else 0.0,
    )


def _steps(past: RunHistory, resource: str, until: float) -> Iterator[UseStep]:
    zero = past.run.submitted
    changes: list[tuple[float, int, int]] = []
    for use in past.uses:
        amount = use.amounts.get(resource, 0)
        if not amount:
            continue
        own = amount if use.run == past.run.id else 0
        changes.append((max(zero, use.lease.granted), own, amount - own))
        if use.lease.released is not None and use.lease.released <= until:
            changes.append((use.lease.released, -own, own - amount))
    own = rest = 0
    changes.sort()
    for number, (at, more, more_rest) in enumerate(changes):
        own, rest = own + more, rest + more_rest
        if number + 1 == len(changes) or changes[number + 1][0] > at:
            yield UseStep(at=at - zero, own=own, other_runs=rest)


def _limits(past: RunHistory, resource: str) -> Iterator[tuple[float, int | None]]:
    """Yield the changes of a limit from the log; the table has only its present value."""
    zero = past.run.submitted
    changes: list[tuple[float, int | None]] = []
    for event in past.events:
        if event.kind == "run_submitted" and resource in event.data.get("limits", {}):
            changes.append((event.at - zero, event.data["limits"][resource]))
        elif event.kind == "limit_set" and event.data["resource"] == resource:
            if not changes:
                changes.append((float("-inf"), event.data["before"]))
            changes.append((event.at - zero, event.data["capacity"]))
        elif event.kind == "limit_dropped" and event.data["resource"] == resource:
            changes.append((event.at - zero, None))
    earlier = [limit for at, limit in changes if at <= 0]
    yield (0.0, earlier[-1] if earlier else past.limits.get(resource))
    yield from ((at, limit) for at, limit in changes if at > 0)


class TaskReport(Struct, frozen=True, kw_only=True):
    id: int
    name: str
    title: str
    state: str
    reason: str
    needs: tuple[str, ...]
    barrier: bool  # no work: the end of a phase, or a story
    person: bool  # done by a person
    start: float | None  # of its first attempt
    end: float | None  # time it was done or given up
    seconds: float  # of all its attempts
    micro_usd: int
    commit: str | None  # commit on trunk
    critical: bool  # on the chain that decided when the run ended
    predicted: str = ""  # its files, if weft predicted them


class AttemptReport(Struct, frozen=True, kw_only=True):
    task_id: int
    task: str
    number: int
    agent: str | None
    stage: str | None
    worker: str
    slot: int  # counted from 0 over all workers
    start: float
    end: float  # now, for a running attempt
    outcome: str  # success, running, a step, or the class of failure
    failed: bool
    fate: str  # landed, sent back, at the gate, done, running, a step, or the class of failure
    reason: str
    tokens: int
    micro_usd: int
    commit: str | None
    host: str = ""  # the worker host on which it ran; '': home


class TaskWait(Struct, frozen=True, kw_only=True):
    """A time in which a task could have started and did not."""

    task_id: int
    task: str
    start: float
    end: float  # now, for a wait that goes on
    cause: str  # person, provider (a limit of its provider), room (slots, limits or files)


class CheckReport(Struct, frozen=True, kw_only=True):
    tasks: tuple[str, ...]  # tasks checked together
    purpose: str
    slot: int
    start: float
    end: float
    passed: bool
    reused: bool  # verdict on the same tree was known
    flaky: bool  # same tree had the opposite verdict before
    output: str  # of a failed check
    host: str = ""  # the worker host that ran it; '': home


class RejectionReport(Struct, frozen=True, kw_only=True):
    at: float
    tasks: tuple[str, ...]
    with_tasks: tuple[str, ...]  # tasks it fails or conflicts with
    kind: str  # conflict, red
    reason: str


class LandingReport(Struct, frozen=True, kw_only=True):
    at: float
    tasks: tuple[str, ...]
    commits: tuple[str, ...]


class ChoiceReport(Struct, frozen=True, kw_only=True):
    """A step of a team's choice; the last names the winner."""

    at: float
    task: str
    step: str
    left: tuple[int, ...]  # entrants
    out: Mapping[str, str]  # reasons of the entrants that this step took out


def describe_choice(choice: ChoiceReport) -> str:
    """Return a step of a team's choice as a clause: `gate check: 2 left (1 fails …)`."""
    left = ", ".join(map(str, choice.left)) or "none"
    if choice.step == "chosen":
        return f"entrant {left} was chosen"
    out = "; ".join(f"{number} {reason}" for number, reason in choice.out.items())
    return f"{choice.step}: {left} left{f' ({out})' if out else ''}"


class RunReport(Struct, frozen=True, kw_only=True):
    run: str
    plan: str
    title: str
    state: str
    blocked: str  # reason for which the gate waits for a person
    base: str
    tip: str | None  # of trunk; None: no landing yet
    submitted: float  # seconds since 1970
    seconds: float  # from submission to the end, or to now
    figures: RunFigures
    tasks: tuple[TaskReport, ...]
    attempts: tuple[AttemptReport, ...]
    waits: tuple[TaskWait, ...]
    checks: tuple[CheckReport, ...]
    rejections: tuple[RejectionReport, ...]
    landings: tuple[LandingReport, ...]
    capacity: tuple[LimitUse, ...]
    choices: tuple[ChoiceReport, ...] = ()  # of teams
    unboxed: str = ""  # programs whose box its settings switch off


_SHORTEST: Final = 0.5  # seconds of a wait
_CAUSES: Final = {State.BLOCKED: "person", State.PAUSED: "person", State.PARKED: "provider"}
_OPEN: Final = frozenset({State.READY, State.BLOCKED, State.PAUSED, State.PARKED, State.OFFERED})
_DECIDED: Final = frozenset({"review_accepted", "review_sent_back", "task_cancelled"})


def list_task_waits(past: RunHistory, *, now: float) -> list[TaskWait]:
    """List the waits of each task, from the moment at which no other task was in its way."""
    tasks = {task.id: task for task in past.tasks}
    attempts: dict[int, list[Attempt]] = {}
    for attempt in sorted(past.attempts, key=lambda attempt: attempt.started):
        attempts.setdefault(attempt.task, []).append(attempt)
    events: dict[int, list[Event]] = {}
    for event in past.events:
        if event.task is not None:
            events.setdefault(event.task, []).append(event)
    waits: list[TaskWait] = []
    for task in past.tasks:
        needs = [tasks[need] for need in past.needs.get(task.id, ())]
        in_the_way = any(need.state not in TERMINAL for need in needs)
        if task.request.kind is not TaskKind.WORK or in_the_way:
            continue
        ready = max([past.run.submitted, *(need.since for need in needs)])
        own = attempts.get(task.id, [])
        waits += _list_waits(task, ready, own, events.get(task.id, []), now)
        waits += _list_reviews(task, events.get(task.id, []), now)
    return waits


def _list_reviews(task: Task, events: list[Event], now: float) -> Iterator[TaskWait]:
    opened: float | None = None
    for event in (*events, None):
        if opened is not None and (event is None or event.kind in _DECIDED):
            end = now if event is None else event.at
            yield TaskWait(task_id=task.id, task=task.name, start=opened, end=end, cause="person")
            opened = None
        if event is not None and event.kind == "review_opened":
            opened = event.at


def _list_waits(
    task: Task, ready: float, attempts: list[Attempt], events: list[Event], now: float
) -> Iterator[TaskWait]:
    begin: float | None = ready
    for attempt in attempts:
        if begin is not None:
            yield from _wait(task, begin, attempt.started, events, now)
        begin = attempt.ended
    if begin is not None and task.state in _OPEN:
        yield from _wait(task, begin, now, events, now)


def _wait(
    task: Task, begin: float, end: float, events: list[Event], now: float
) -> Iterator[TaskWait]:
    between = [event for event in events if begin <= event.at < end]
    # The gate has an attempt's work until it is sent back, which is an event.
    since = max([begin, *(event.at for event in between)])
    if end - since < _SHORTEST:
        since = begin
    states = [event.data.get("state") for event in between]
    cause = next((_CAUSES[state] for state in reversed(states) if state in _CAUSES), "room")
    if end == now and task.state in _CAUSES:
        cause = _CAUSES[task.state]
    if task.agent == HUMAN:
        cause = "person"
    if end - since >= _SHORTEST:
        yield TaskWait(task_id=task.id, task=task.name, start=since, end=end, cause=cause)
