"""The identity of a caller, and its rights. The faces establish it; this module only compares.

An identity is limited in three ways: by scopes (each includes the scope before: read, work, admin),
by the agents it sends work to, and, if it was made for an attempt, by that attempt.
The identity of an attempt sees its own task and the tasks that this task needs. It sees more only
with the scope `work`, as a lead has.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from weft.agents.agent import Agent
from weft.errors import Forbidden, InputError, NotFound, StaleFence
from weft.model import EVERY_AGENT, Held, Lease, Task, Token, Worker, WorkerKind
from weft.operations.member_records import Claimed, TaskNeed
from weft.store import Store
from weft.store.leases import get_lease, unknown_fence
from weft.store.members import find_own, list_called
from weft.store.messages import list_to_task
from weft.store.tasks import get_task, list_needs
from weft.store.workers import get_worker

READ: Final = "read"
WORK: Final = "work"
ADMIN: Final = "admin"
JOIN: Final = "join"
HOST: Final = "host"
"""The right of a token that a worker host was given; no scope includes it."""
OWN: Final = "own"
"""In place of a right: open to tokens of a single attempt too. The operation decides which tasks
such a token may see and touch."""

_INCLUDED: Final = {
    READ: frozenset({READ, WORK, ADMIN}),
    WORK: frozenset({WORK, ADMIN}),
    ADMIN: frozenset({ADMIN}),
    JOIN: frozenset({JOIN}),
}


class Identity(Struct, frozen=True):
    """A caller: the owner of a token, or an agent by the token of its attempt."""

    token: str  # its id
    name: str
    scopes: frozenset[str]
    tenant: str | None = None  # for which its tasks take turns
    fence: int | None = None  # the attempt it was made for
    task: int | None = None  # the task of that attempt
    agents: frozenset[str] | None = frozenset()  # agents it sends work to; see `model.Token`
    worker: str | None = None  # the host that it was given to

    @property
    def subject(self) -> str:
        """The name under which its tasks and messages are stored."""
        if self.fence is not None:
            return f"task {self.task}"
        return f"token {self.token}" if self.token else self.name


LOCAL: Final = Identity(token="", name="local", scopes=frozenset({READ, WORK, ADMIN}))
"""The identity of a process that opens the store itself."""


def from_token(token: Token) -> Identity:
    return Identity(
        token=token.id,
        name=token.name,
        scopes=token.scopes,
        tenant=token.tenant,
        fence=token.fence,
        task=token.task,
        agents=token.agents,
        worker=token.worker,
    )


def has(who: Identity, scope: str) -> bool:
    if scope == HOST:
        return who.worker is not None
    return bool(who.scopes & _INCLUDED[scope])


def need(who: Identity, scope: str) -> None:
    """Raise `Forbidden` if the caller lacks a scope, or has it for a single attempt."""
    if is_bound(who):
        raise Forbidden("This token is for one task, and may not do that.")
    if scope == HOST and not has(who, HOST):
        raise Forbidden("Only a worker host does that, with the token it was given.")
    if not has(who, scope):
        raise Forbidden(f"This needs a token with the scope {scope}.")


def is_bound(who: Identity) -> bool:
    """Tell whether the token was made for an attempt and sees no other tasks."""
    return who.fence is not None and not has(who, WORK)


def sends_to_all(who: Identity) -> bool:
    return has(who, ADMIN) or who.agents is None or EVERY_AGENT in who.agents


def need_agent(who: Identity, agent: Agent) -> None:
    """Raise `Forbidden` if the token does not include this agent of the repository.

    A lead's token includes the agents in `sends_to` of its file. Any other token that names no
    agents includes those whose files say `open: yes`.
    """
    if sends_to_all(who) or agent.name in (who.agents or ()):
        return
    if who.fence is not None:
        raise Forbidden(
            f"This agent may not send work to {agent.name}; "
            f"`sends_to: {agent.name}` in its agent file allows it."
        )
    if who.agents or not agent.open:
        raise Forbidden(
            f"This token may not send work to the agent {agent.name}. An admin can make a token "
            f"that may (weft token create NAME --agents {agent.name})"
            + ("." if who.agents else f", or write `open: yes` into {agent.file}.")
        )


def need_member(who: Identity, worker: Worker) -> None:
    """Refuse to act as a member, except for the token it joined with and admins."""
    need(who, WORK)
    if worker.kind is not WorkerKind.API:
        raise Forbidden(f"{worker.id} is a weft process, and only that process acts for it.")
    if worker.token != who.token and not has(who, ADMIN):
        raise Forbidden(f"{worker.id} joined with another token.")


_MEMBER: Final = "member "


def get_acting(store: Store, who: Identity, member: str, *, now: float) -> Worker:
    """Return the member that an identity acts as; refuse a member of another token, and a member
    that left."""
    worker = get_worker(store, member, now=now)
    need_member(who, worker)
    if worker.left is not None:
        raise NotFound(f"{member} has left or was silent for too long; join again.")
    return worker


def get_called(store: Store, name: str, *, now: float) -> Worker:
    """Return the present member with this id, or with this name if it is unique."""
    ids = list_called(store, name)
    if not ids:
        raise NotFound(f"There is no member {name} in the swarm.")
    if len(ids) > 1:
        raise InputError(f"Several members are called {name}: {', '.join(ids)}; give an id.")
    return get_worker(store, ids[0], now=now)


def get_own_lease(
    store: Store, who: Identity, fence: int, *, task: int | None = None, now: float
) -> Lease:
    """Return the attempt of a fence, for the member that holds it or the agent that runs it.

    A fence of no member is answered like an unknown fence. `task` is the task that the caller
    names.
    """
    lease = get_lease(store, fence)
    if who.fence != fence or lease.kind != "attempt":
        worker = None if lease.worker is None else get_worker(store, lease.worker, now=now)
        if worker is None or lease.task is None:
            raise unknown_fence(fence)
        need_member(who, worker)
    if task not in (None, lease.task):
        raise StaleFence(f"Fence {fence} does not belong to task {task}.")
    return lease


def get_visible_task(store: Store, who: Identity, task: int) -> Task:
    """Return a task if this identity may see it; an agent sees its own task and its needs."""
    if is_bound(who):
        assert who.task is not None
        if task != who.task and task not in {need.id for need, _ in list_needs(store, who.task)}:
            raise Forbidden("This token is for a single task, not for this task.")
    else:
        need(who, READ)
    return get_task(store, task)


def find_own_members(store: Store, who: Identity, named: str | None = None) -> list[str]:
    """Return the ids of at most two members of this identity: all, or those with the given id or
    name."""
    need(who, WORK)
    return find_own(store, who.token, named)


def sender_name(member: str) -> str:
    """Return the name under which a member's tasks and messages are stored."""
    return f"{_MEMBER}{member}"


def get_sender(store: Store, who: Identity, member: str | None, *, now: float) -> str:
    if member is None:
        return who.subject
    return sender_name(get_acting(store, who, member, now=now).id)


def may_steer(store: Store, who: Identity, task: Task) -> bool:
    """Tell whether this identity may stop a task: it sent the task, or is an admin."""
    sender = task.created_by
    if has(who, ADMIN) or sender == who.subject:
        return True
    if sender is None or is_bound(who) or not sender.startswith(_MEMBER):
        return False
    member = sender.removeprefix(_MEMBER)
    return member in find_own(store, who.token, member)


def describe_claimed(store: Store, held: Held) -> Claimed:
    task = get_task(store, held.task)
    return Claimed(
        task=task.id,
        name=task.name,
        text=task.text,
        details=task.attached,
        files=task.files,
        needs=tuple(
            TaskNeed(task=need.id, name=need.name, state=need.state, result=need.result)
            for need, _ in list_needs(store, task.id)
        ),
        fence=held.fence,
        attempt=held.attempt,
        deadline=held.deadline,
        messages=tuple(list_to_task(store, task.id)),
    )
