"""Records of a report. All times are seconds since the run was submitted."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from weft.runs.report.limit_use import LimitUse
from weft.runs.run_figures import RunFigures


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
