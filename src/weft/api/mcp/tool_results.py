"""What the tools answer: few fields, by the names the tools take them back under."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class HeldResult:
    """A task somebody works on."""

    task: int
    name: str
    fence: int


@dataclass(frozen=True, kw_only=True)
class MemberResult:
    id: str  # given as `me` by whoever it is
    name: str
    role: str
    is_lead: bool
    capabilities: list[str]
    status: str
    current: int  # tasks it works on
    max: int
    tasks: list[HeldResult]
    offers: list[int]


@dataclass(frozen=True, kw_only=True)
class MeResult:
    """Members of the caller's, or the one task weft started it for."""

    members: list[MemberResult]
    task: int | None
    fence: int | None


@dataclass(frozen=True, kw_only=True)
class Swarm:
    members: list[MemberResult]


@dataclass(frozen=True, kw_only=True)
class SentResult:
    task: int
    name: str
    state: str


@dataclass(frozen=True, kw_only=True)
class ListedTask:
    task: int
    name: str
    state: str
    reason: str
    agent: str | None
    worker: str | None
    run: str | None


@dataclass(frozen=True, kw_only=True)
class PageResult:
    tasks: list[ListedTask]
    next: int | None  # to be given as `after`; None: that was all


@dataclass(frozen=True, kw_only=True)
class TaskResultShape:
    task: int
    name: str
    run: str | None
    state: str
    reason: str
    text: str
    agent: str | None
    files: list[str]
    result: str


@dataclass(frozen=True, kw_only=True)
class MessageResult:
    sender: str
    text: str


@dataclass(frozen=True, kw_only=True)
class FinishedResult:
    """How a task ended that the caller sent."""

    task: int
    name: str
    state: str
    text: str  # its result, or why it has none


@dataclass(frozen=True, kw_only=True)
class Needed:
    task: int
    name: str
    state: str
    result: str


@dataclass(frozen=True, kw_only=True)
class ClaimedResult:
    """A task that is the caller's own now."""

    task: int
    name: str
    fence: int  # to be shown with everything done for it
    text: str
    files: list[str]
    needs: list[Needed]


@dataclass(frozen=True, kw_only=True)
class OfferResult:
    task: int
    name: str
    text: str


@dataclass(frozen=True, kw_only=True)
class PolledResult:
    kind: str  # task, offer, messages, finished or nothing
    task: ClaimedResult | None = None
    offer: OfferResult | None = None
    messages: list[MessageResult]
    finished: list[FinishedResult]
    ack: str | None = None  # to be given with the next poll


@dataclass(frozen=True, kw_only=True)
class Acted:
    task: int
    action: str
    claimed: ClaimedResult | None = None


@dataclass(frozen=True, kw_only=True)
class Stored:
    task: int | None
    state: str
    messages: list[MessageResult]
    ack: str | None


@dataclass(frozen=True, kw_only=True)
class ClaimedFiles:
    granted: bool
    held: dict[str, int]  # what others hold, by whose task


@dataclass(frozen=True, kw_only=True)
class WaitResult:
    kind: str
    subject: str
    text: str


@dataclass(frozen=True, kw_only=True)
class Reasons:
    task: int
    state: str
    reason: str
    waits: list[WaitResult]


@dataclass(frozen=True, kw_only=True)
class RunResult:
    run: str
    tasks: dict[str, int]  # numbers by the plan's ids
    warnings: list[str]
