"""Short words for what tests of the swarm do all the time."""

from __future__ import annotations

from typing import Any, TypeVar

from weft.errors import Refused
from weft.model import State
from weft.operations.swarm import members, polling, sending, working
from weft.operations.swarm.identity import Identity
from weft.operations.swarm.records import Claimed, Member, NewWork, Result, Sent
from weft.store import Store

T = TypeVar("T")

OWNER = Identity("t-owner", "owner", frozenset({"work"}))
ACME = Identity("t-acme", "acme", frozenset({"work"}), tenant="acme")
DONE = Result(status="completed", text="done it")
FAILED = Result(status="failed", text="it does not compile")


def join(
    store: Store, id: str = "m", *, who: Identity = OWNER, now: float = 0, **said: Any
) -> Member:
    return members.join(store, who, **{"id": id, "name": id, **said}, now=now)


def post(
    store: Store, title: str = "", *, who: Identity = OWNER, now: float = 1, **said: Any
) -> Sent:
    """Send a task, to the pool unless it says otherwise."""
    return sending.send(store, who, NewWork(**{"text": "do it", "title": title, **said}), now=now)


def take(store: Store, member: str = "m", *, who: Identity = OWNER, now: float = 2) -> Claimed:
    """Poll, and get a task."""
    found = polling.poll(store, who, member, now=now)
    assert found is not None, f"there was nothing for {member}"
    assert found.task is not None, f"{member} got {found.kind}, not a task"
    return found.task


def take_all(
    store: Store, member: str = "m", *, who: Identity = OWNER, now: float = 2
) -> list[Claimed]:
    """Poll until there is nothing more."""
    taken = []
    while (found := polling.poll(store, who, member, now=now)) is not None:
        assert found.task is not None, f"{member} got {found.kind}, not a task"
        taken.append(found.task)
    return taken


def end(
    store: Store, claimed: Claimed, result: Result = DONE, *, who: Identity = OWNER, now: float = 3
) -> State:
    return done(working.finish(store, who, claimed.fence, result, now=now))


def done(answer: T | Refused) -> T:
    """What came of something; raises what was refused."""
    if isinstance(answer, Refused):
        raise answer
    return answer
