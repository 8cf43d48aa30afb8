"""What a report says. All times are seconds since the run was submitted."""

from __future__ import annotations

from msgspec import Struct

from weft.runs.report.limit_use import LimitUse


class TaskReport(Struct, frozen=True, kw_only=True):
    name: str
    title: str
    state: str
    reason: str
    needs: tuple[str, ...]
    barrier: bool  # nobody's work: the end of a phase, or a story
    person: bool  # asks a person
    start: float | None  # of its first attempt
    end: float | None  # when it was done, or given up
    seconds: float  # of all its attempts
    micro_usd: int
    commit: str | None  # what it landed as
    critical: bool  # on the chain that decided when the run ended


class AttemptReport(Struct, frozen=True, kw_only=True):
    task: str
    number: int
    agent: str | None
    stage: str | None
    worker: str
    slot: int  # counted from 0 over all workers
    start: float
    end: float  # now, for one that runs
    outcome: str  # success, running, or the class of failure
    fate: str  # landed, sent back, at the gate, done, running, or the class of failure
    reason: str
    tokens: int
    micro_usd: int
    commit: str | None


class CheckReport(Struct, frozen=True, kw_only=True):
    tasks: tuple[str, ...]  # whose work was checked as one
    purpose: str
    slot: int
    start: float
    end: float
    passed: bool
    reused: bool  # the verdict on the same tree was known
    flaky: bool  # the same tree was found otherwise before
    output: str  # of one that failed


class RejectionReport(Struct, frozen=True, kw_only=True):
    at: float
    tasks: tuple[str, ...]
    others: tuple[str, ...]  # with whom it fails or does not merge, if not alone
    kind: str  # conflict, red
    reason: str


class LandingReport(Struct, frozen=True, kw_only=True):
    at: float
    tasks: tuple[str, ...]
    commits: tuple[str, ...]


class ReportFigures(Struct, frozen=True, kw_only=True):
    makespan: float  # from the first start to the end
    bound: float  # what no schedule of these attempts could beat
    bound_by: str  # what that is: the longest path, the slots, or a file
    sequential: float  # all attempts, one after the other
    slots: int  # agents at a time, at most
    attempts: int
    failed: int
    checks: int
    flaky: int  # of these, on trees that had been found otherwise
    check_seconds: float
    sent_back: int
    landed: int
    tasks: int
    tokens: int
    micro_usd: int


class RunReport(Struct, frozen=True, kw_only=True):
    run: str
    plan: str
    title: str
    state: str
    blocked: str  # why the gate waits for a person
    base: str
    tip: str | None  # of trunk, if anything landed
    submitted: float  # seconds since 1970
    seconds: float  # from then to the end, or to now
    figures: ReportFigures
    tasks: tuple[TaskReport, ...]
    attempts: tuple[AttemptReport, ...]
    checks: tuple[CheckReport, ...]
    rejections: tuple[RejectionReport, ...]
    landings: tuple[LandingReport, ...]
    capacity: tuple[LimitUse, ...]
