"""Lookups with a check of rights: the acting member, the attempt of a fence, a visible task."""

from __future__ import annotations

from typing import Final

from weft.errors import Forbidden, InputError, NotFound, StaleFence
from weft.model import Held, Lease, Task, Worker
from weft.store import Store
from weft.store.leases import get_lease, unknown_fence
from weft.store.members import find_own, list_called
from weft.store.messages import list_to_task
from weft.store.tasks import get_task, list_needs
from weft.store.workers import get_worker
from weft.swarm.identity import (
    ADMIN,
    READ,
    WORK,
    Identity,
    has,
    is_bound,
    need,
    need_member,
)
from weft.swarm.swarm_records import Claimed, TaskNeed

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
