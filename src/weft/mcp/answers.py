"""What the tools answer: few fields, by the names the tools take them back under."""

from __future__ import annotations

from msgspec import Struct


class Held(Struct, frozen=True, kw_only=True):
    """A task somebody works on."""

    task: int
    name: str
    fence: int


class Member(Struct, frozen=True, kw_only=True):
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


class Me(Struct, frozen=True, kw_only=True):
    """Members of the caller's, or the one task weft started it for."""

    members: list[Member]
    task: int | None
    fence: int | None


class Swarm(Struct, frozen=True, kw_only=True):
    members: list[Member]


class Sent(Struct, frozen=True, kw_only=True):
    task: int
    name: str
    state: str


class Listed(Struct, frozen=True, kw_only=True):
    task: int
    name: str
    state: str
    reason: str
    agent: str | None
    worker: str | None
    run: str | None


class Page(Struct, frozen=True, kw_only=True):
    tasks: list[Listed]
    next: int | None  # to be given as `after`; None: that was all


class Task(Struct, frozen=True, kw_only=True):
    task: int
    name: str
    run: str | None
    state: str
    reason: str
    text: str
    agent: str | None
    files: list[str]
    result: str


class Message(Struct, frozen=True, kw_only=True):
    sender: str
    text: str


class Finished(Struct, frozen=True, kw_only=True):
    """How a task ended that the caller sent."""

    task: int
    name: str
    state: str
    text: str  # its result, or why it has none


class Needed(Struct, frozen=True, kw_only=True):
    task: int
    name: str
    state: str
    result: str


class Claimed(Struct, frozen=True, kw_only=True):
    """A task that is the caller's own now."""

    task: int
    name: str
    fence: int  # to be shown with everything done for it
    text: str
    files: list[str]
    needs: list[Needed]


class Offer(Struct, frozen=True, kw_only=True):
    task: int
    name: str
    text: str


class Polled(Struct, frozen=True, kw_only=True):
    kind: str  # task, offer, messages, finished or nothing
    task: Claimed | None = None
    offer: Offer | None = None
    messages: list[Message]
    finished: list[Finished]
    ack: str | None = None  # to be given with the next poll


class Acted(Struct, frozen=True, kw_only=True):
    task: int
    action: str
    claimed: Claimed | None = None


class Stored(Struct, frozen=True, kw_only=True):
    task: int | None
    state: str
    messages: list[Message]
    ack: str | None


class Files(Struct, frozen=True, kw_only=True):
    granted: bool
    held: dict[str, int]  # what others hold, by whose task


class Wait(Struct, frozen=True, kw_only=True):
    kind: str
    subject: str
    text: str


class Reasons(Struct, frozen=True, kw_only=True):
    task: int
    state: str
    reason: str
    waits: list[Wait]


class Run(Struct, frozen=True, kw_only=True):
    run: str
    tasks: dict[str, int]  # numbers by the plan's ids
    warnings: list[str]
