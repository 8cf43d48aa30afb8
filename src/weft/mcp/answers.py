"""What the tools answer: few fields, by the names the tools take them back under."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Held:
    """A task somebody works on."""

    task: int
    name: str
    fence: int


@dataclass(frozen=True, kw_only=True)
class Member:
    id: str  # given as `me` by whoever it is
    name: str
    role: str
    is_lead: bool
    capabilities: list[str]
    status: str
    current: int  # tasks it works on
    max: int
    tasks: list[Held]
    offers: list[int]


@dataclass(frozen=True, kw_only=True)
class Me:
    """Members of the caller's, or the one task weft started it for."""

    members: list[Member]
    task: int | None
    fence: int | None


@dataclass(frozen=True, kw_only=True)
class Swarm:
    members: list[Member]


@dataclass(frozen=True, kw_only=True)
class Sent:
    task: int
    name: str
    state: str


@dataclass(frozen=True, kw_only=True)
class Listed:
    task: int
    name: str
    state: str
    reason: str
    agent: str | None
    worker: str | None
    run: str | None


@dataclass(frozen=True, kw_only=True)
class Page:
    tasks: list[Listed]
    next: int | None  # to be given as `after`; None: that was all


@dataclass(frozen=True, kw_only=True)
class Task:
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
class Message:
    sender: str
    text: str


@dataclass(frozen=True, kw_only=True)
class Finished:
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
class Claimed:
    """A task that is the caller's own now."""

    task: int
    name: str
    fence: int  # to be shown with everything done for it
    text: str
    files: list[str]
    needs: list[Needed]


@dataclass(frozen=True, kw_only=True)
class Offer:
    task: int
    name: str
    text: str


@dataclass(frozen=True, kw_only=True)
class Polled:
    kind: str  # task, offer, messages, finished or nothing
    task: Claimed | None = None
    offer: Offer | None = None
    messages: list[Message]
    finished: list[Finished]
    ack: str | None = None  # to be given with the next poll


@dataclass(frozen=True, kw_only=True)
class Acted:
    task: int
    action: str
    claimed: Claimed | None = None


@dataclass(frozen=True, kw_only=True)
class Stored:
    task: int | None
    state: str
    messages: list[Message]
    ack: str | None


@dataclass(frozen=True, kw_only=True)
class Files:
    granted: bool
    held: dict[str, int]  # what others hold, by whose task


@dataclass(frozen=True, kw_only=True)
class Wait:
    kind: str
    subject: str
    text: str


@dataclass(frozen=True, kw_only=True)
class Reasons:
    task: int
    state: str
    reason: str
    waits: list[Wait]


@dataclass(frozen=True, kw_only=True)
class Run:
    run: str
    tasks: dict[str, int]  # numbers by the plan's ids
    warnings: list[str]
