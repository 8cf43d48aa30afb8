"""The records that a swarm sends and shows."""

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
    """A program that joined the swarm."""

    id: str
    name: str
    is_lead: bool
    role: str
    capabilities: tuple[str, ...]
    status: str  # idle, busy or offline: derived, never stored
    capacity: Capacity
    tasks: tuple[Held, ...]
    offers: tuple[int, ...]  # tasks it was offered and has not answered
    seen: float


class NewWork(Struct, frozen=True, kw_only=True):
    """A task as it is sent into the swarm."""

    text: str
    title: str = ""
    to: str | None = None  # a member, by id or unique name
    how: How = "pool"
    needs: tuple[int, ...] = ()  # tasks by number, in any state
    priority: Priority = Priority.NORMAL
    klass: Class = Class.STANDARD
    files: tuple[str, ...] = ()
    agent: str | None = None  # an agent file, or a capability of the member
    uses: Demand = field(default_factory=dict)
    attached: Mapping[str, Any] = field(default_factory=dict)  # the sender's own JSON
    tenant: str | None = None  # None: the sender's
    sender: str | None = None  # the sending member; None: the token itself
    repo: str | None = None
    """The repository in which weft's own agent `agent` does it; None: a member does it, wherever
    the member is. Members take only tasks without a repository."""
    stage: str | None = None  # of weft's own agents
    provider: str | None = None
    needs_labels: tuple[str, ...] = ()  # of the worker whose agent does it
    agent_labels: tuple[str, ...] = ()  # those that its agent's file asks for


class Dispatched(Struct, frozen=True, kw_only=True):
    task: int
    name: str
    state: State


class TaskNeed(Struct, frozen=True, kw_only=True):
    """A need of a claimed task, and its result."""

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
    """A task that a member may accept or reject; it holds no files yet."""

    task: int
    name: str
    text: str
    until: float | None


class Trigger(Struct, frozen=True, kw_only=True):
    """The answer of a poll, of exactly one kind."""

    kind: Literal["task", "offer", "messages", "finished"]
    task: Claimed | None = None
    offer: Offer | None = None
    messages: tuple[Message, ...] = ()
    finished: tuple[Notice, ...] = ()
    ack: str | None = None  # for the next poll; else messages and notices come again


class TaskResult(Struct, frozen=True, kw_only=True):
    """The end of an attempt, as a member reports it."""

    status: Literal["completed", "failed"]
    text: str = ""  # the result; of a failure, why
    kind: ErrorClass = ErrorClass.OTHER  # of a failure
    reset: float | None = None  # when a provider said to come back
    tokens: int = 0
    micro_usd: int = 0
    spent: Demand = field(default_factory=dict)  # consumed part of its reservation


class Heard(Struct, frozen=True, kw_only=True):
    """The answer to a progress report."""

    task: int
    deadline: float
    messages: tuple[Message, ...]  # those not yet confirmed
    ack: str | None


class Page(Struct, frozen=True, kw_only=True):
    tasks: tuple[Summary, ...]
    after: int | None  # for the next page; None: the last page


class JoinedHost(Struct, frozen=True, kw_only=True):
    """A worker host that has joined, with its token, which is shown once."""

    host: str  # its workers are called `<host>-…`
    repository: str  # the id of the server's repository
    expires: float  # of the token
    secret: str
    checks: bool = False  # it may report checks
