"""Short words for what tests of the swarm do all the time."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

from weft import config
from weft.errors import Refused
from weft.model import State
from weft.operations import dispatch, long_poll, member_work, membership
from weft.operations.identity import Identity
from weft.operations.member_records import Claimed, Dispatched, Member, NewWork, TaskResult
from weft.operations.registry import OPERATIONS
from weft.operations.steering import CancelAsked, ControlResult
from weft.project.project import Project
from weft.store import Store

T = TypeVar("T")

OWNER = Identity("t-owner", "owner", frozenset({"work"}))
ACME = Identity("t-acme", "acme", frozenset({"work"}), tenant="acme")
DONE = TaskResult(status="completed", text="done it")
FAILED = TaskResult(status="failed", text="it does not compile")


def join(
    store: Store, id: str = "m", *, who: Identity = OWNER, now: float = 0, **said: Any
) -> Member:
    return membership.join(store, who, **{"id": id, "name": id, **said}, now=now)


def post(
    store: Store, title: str = "", *, who: Identity = OWNER, now: float = 1, **said: Any
) -> Dispatched:
    """Send a task, to the pool unless it says otherwise."""
    return dispatch.send(store, who, NewWork(**{"text": "do it", "title": title, **said}), now=now)


def take(store: Store, member: str = "m", *, who: Identity = OWNER, now: float = 2) -> Claimed:
    """Poll, and get a task."""
    found = long_poll.poll(store, who, member, now=now)
    assert found is not None, f"there was nothing for {member}"
    assert found.task is not None, f"{member} got {found.kind}, not a task"
    return found.task


def take_all(
    store: Store, member: str = "m", *, who: Identity = OWNER, now: float = 2
) -> list[Claimed]:
    """Poll until there is nothing more."""
    taken = []
    while (found := long_poll.poll(store, who, member, now=now)) is not None:
        assert found.task is not None, f"{member} got {found.kind}, not a task"
        taken.append(found.task)
    return taken


def end(
    store: Store,
    claimed: Claimed,
    result: TaskResult = DONE,
    *,
    who: Identity = OWNER,
    now: float = 3,
) -> State:
    return done(member_work.finish(store, who, claimed.fence, result, now=now))


def done(answer: T | Refused) -> T:
    """What came of something; raises what was refused."""
    if isinstance(answer, Refused):
        raise answer
    return answer


def stop(store: Store, who: Identity, task: int, *, now: float) -> bool:
    """Cancel a task by the operation; return whether that changed it."""
    place = Project(root=Path(), config=config.parse("", {}), environment={}, store_url=store.url)
    changed = OPERATIONS["cancel"].perform(place, store, who, CancelAsked(name=task), now=now)
    assert isinstance(changed, ControlResult)
    return changed.changed
