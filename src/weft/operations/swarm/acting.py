"""Who acts on what: the member that somebody acts as, the attempt that a fence stands for."""

from __future__ import annotations

from typing import Final

from weft.errors import Forbidden, InputError, NotFound
from weft.model import Held, Lease, Task, Worker
from weft.operations.swarm.identity import (
    ADMIN,
    WORK,
    Identity,
    has,
    is_bound,
    may_see,
    need,
    need_member,
)
from weft.operations.swarm.records import Claimed, Need
from weft.store import Store
from weft.store.leases import get_lease
from weft.store.members import find_own, list_called
from weft.store.messages import list_to_task
from weft.store.tasks import get_task, list_needs
from weft.store.workers import get_worker

_MEMBER: Final = "member "


def get_acting(store: Store, who: Identity, member: str, *, now: float) -> Worker:
    """The member somebody acts as; refused if it is another's, or has left."""
    worker = get_worker(store, member, now=now)
    need_member(who, worker)
    if worker.left is not None:
        raise NotFound(f"{member} has left or was silent for too long; join again.")
    return worker


def get_called(store: Store, name: str, *, now: float) -> Worker:
    """The member present that has this id, or alone has this name."""
    found = list_called(store, name)
    if not found:
        raise NotFound(f"There is no member {name} in the swarm.")
    if len(found) > 1:
        raise InputError(f"Several members are called {name}: {', '.join(found)}; give an id.")
    return get_worker(store, found[0], now=now)


def get_own_lease(store: Store, who: Identity, fence: int, *, now: float) -> Lease:
    """The attempt of a fence, for the member that has it or the agent that is it."""
    lease = get_lease(store, fence)
    if who.fence == fence and lease.kind == "attempt":
        return lease
    if lease.worker is None or lease.task is None:
        raise Forbidden(f"Fence {fence} is no member's.")
    need_member(who, get_worker(store, lease.worker, now=now))
    return lease


def get_visible_task(store: Store, who: Identity, task: int) -> Task:
    """A task, if this identity may look at it."""
    about = get_task(store, task)
    bound = who.task if is_bound(who) else None
    needed = [] if bound is None else [one.id for one, _ in list_needs(store, bound)]
    may_see(who, about, needed=needed)
    return about


def find_own_members(store: Store, who: Identity, named: str | None = None) -> list[str]:
    """The ids of the members this identity can mean by an id, a name or nothing; at most two."""
    need(who, WORK)
    return find_own(store, who.token, named)


def sender_name(member: str) -> str:
    """The name under which a member's tasks and messages are stored."""
    return f"{_MEMBER}{member}"


def get_sender(store: Store, who: Identity, member: str | None, *, now: float) -> str:
    if member is None:
        return who.subject
    return sender_name(get_acting(store, who, member, now=now).id)


def may_steer(store: Store, who: Identity, task: Task) -> bool:
    """Whether this identity may stop a task: its sender, or an admin."""
    sender = task.created_by
    if has(who, ADMIN) or sender == who.subject:
        return True
    if sender is None or is_bound(who) or not sender.startswith(_MEMBER):
        return False
    member = sender.removeprefix(_MEMBER)
    return member in find_own(store, who.token, member)


def as_claimed(store: Store, held: Held) -> Claimed:
    """What a member gets to know of a task it holds."""
    task = get_task(store, held.task)
    return Claimed(
        task=task.id,
        name=task.name,
        text=task.text,
        details=task.details,
        files=task.files,
        needs=tuple(
            Need(task=need.id, name=need.name, state=need.state, result=need.result)
            for need, _ in list_needs(store, task.id)
        ),
        fence=held.fence,
        attempt=held.attempt,
        deadline=held.deadline,
        messages=tuple(list_to_task(store, task.id)),
    )
