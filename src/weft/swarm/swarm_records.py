"""What is sent into a swarm, and what its members get to see."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct, field

from weft.model import (
    Capacity,
    Class,
    Demand,
    ErrorClass,
    Held,
    Message,
    Notice,
    Priority,
    State,
    Summary,
)

How = Literal["pool", "assign", "queue", "offer", "prefer"]


class Member(Struct, frozen=True, kw_only=True):
    """An agent that joined the swarm."""

    id: str
    name: str
    is_lead: bool
    role: str
    capabilities: tuple[str, ...]
    tenant: str | None  # whose tasks it takes; None: anybody's
    status: str  # idle, busy or offline: derived, never stored
    capacity: Capacity
    tasks: tuple[Held, ...]
    offers: tuple[int, ...]  # tasks it was offered and has not answered
    seen: float


class NewWork(Struct, frozen=True, kw_only=True):
    """A task as it is sent into the swarm."""

    text: str
    title: str = ""
    to: str | None = None  # the member it is for, by id or by a name that only one has
    how: How = "pool"
    needs: tuple[int, ...] = ()  # tasks by number, in any state
    priority: Priority = Priority.NORMAL
    klass: Class = Class.STANDARD
    files: tuple[str, ...] = ()
    agent: str | None = None  # the capability who takes it must have
    uses: Demand = field(default_factory=dict)
    attached: Mapping[str, Any] = field(default_factory=dict)  # the sender's own JSON
    tenant: str | None = None  # None: that of who sends it
    sender: str | None = None  # the member who sends it; None: whoever asks, by its token
    repo: str | None = None
    """Where weft's own agents do it, as `agent` says; None: wherever the member is that takes it.
    Only members take what is done nowhere in particular, and they take nothing else."""
    stage: str | None = None  # of weft's own agents
    provider: str | None = None


class Dispatched(Struct, frozen=True, kw_only=True):
    task: int
    name: str
    state: State


class TaskNeed(Struct, frozen=True, kw_only=True):
    """Something that a task needed, and what came of it."""

    task: int
    name: str
    state: State
    result: str


class Claimed(Struct, frozen=True, kw_only=True):
    """A task that is now a member's own, until it finishes or releases it by the fence."""

    task: int
    name: str
    text: str
    details: Mapping[str, Any]  # attached by the sender
    files: tuple[str, ...]
    needs: tuple[TaskNeed, ...]
    fence: int
    attempt: int
    deadline: float | None
    messages: tuple[Message, ...] = ()


class Offer(Struct, frozen=True, kw_only=True):
    """A task that a member may accept or reject. It holds nothing yet."""

    task: int
    name: str
    text: str
    until: float | None


class Trigger(Struct, frozen=True, kw_only=True):
    """What a poll came to: exactly one of these."""

    kind: Literal["task", "offer", "messages", "finished"]
    task: Claimed | None = None
    offer: Offer | None = None
    messages: tuple[Message, ...] = ()
    finished: tuple[Notice, ...] = ()
    ack: str | None = None  # to give back with the next poll; else messages and notices come again


class TaskResult(Struct, frozen=True, kw_only=True):
    """How a member says its work on a task has ended."""

    status: Literal["completed", "failed"]
    text: str = ""  # the result; of a failure, why
    kind: ErrorClass = ErrorClass.OTHER  # of a failure
    reset: float | None = None  # when a provider said to come back
    tokens: int = 0
    micro_usd: int = 0
    spent: Demand = field(default_factory=dict)  # of what it reserved and is used up


class Heard(Struct, frozen=True, kw_only=True):
    """What progress was answered with."""

    task: int
    deadline: float
    messages: tuple[Message, ...]  # those not yet confirmed
    ack: str | None


class Page(Struct, frozen=True, kw_only=True):
    tasks: tuple[Summary, ...]
    after: int | None  # to ask on with; None: that was all
