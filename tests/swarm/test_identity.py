"""Who may do what: every operation asked for by every kind of identity.

What is refused is refused with `Forbidden` and has changed nothing. Tenants see nothing of each
other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from store_helpers import DONE as MET
from store_helpers import go, hire, put, snapshot
from store_helpers import url as url
from swarm_helpers import DONE, join, post, take
from weft.errors import Forbidden, NotFound, StaleFence
from weft.model import Filter
from weft.store import Store, open_store
from weft.store.attempt_end import finish
from weft.store.tokens import create_token
from weft.swarm import dispatch, inbox, member_work, membership, poll, views
from weft.swarm.identity import LOCAL, Identity, from_token
from weft.swarm.swarm_records import NewWork

WORK = frozenset({"work"})


@dataclass(frozen=True)
class TenantTasks:
    """A member of the tenant acme that holds one task and is offered another, and a third."""

    store: Store
    held: int
    fence: int
    offered: int
    ready: int
    agents_fence: int  # of an agent that weft started, on a task of acme
    agents_task: int

    def who(self, kind: str) -> Identity:
        agent: dict[str, Any] = {
            "fence": self.agents_fence,
            "task": self.agents_task,
            "tenant": "acme",
        }
        return {
            "owner": Identity("t-own", "owner", WORK, tenant="acme"),
            "admin": LOCAL,
            "colleague": Identity("t-col", "colleague", WORK, tenant="acme"),
            "worker of all": Identity("t-all", "all", WORK),
            "reader": Identity("t-read", "reader", frozenset({"read"}), tenant="acme"),
            "stranger": Identity("t-str", "stranger", WORK, tenant="globex"),
            "nobody": Identity("t-none", "nobody", frozenset(), tenant="acme"),
            "agent": Identity("t-agent", "agent", frozenset({"read"}), **agent),
            "lead agent": Identity("t-lead", "lead", WORK, **agent),
        }[kind]


KINDS = (
    "owner",
    "admin",
    "colleague",
    "worker of all",
    "reader",
    "stranger",
    "nobody",
    "agent",
    "lead agent",
)
ITS_OWN = {"owner", "admin"}
WORKERS_OF_ACME = {"owner", "admin", "colleague", "worker of all", "lead agent"}
EYES_OF_ACME = WORKERS_OF_ACME | {"reader"}
ACME = "acme"

Operation = Callable[[TenantTasks, Identity], object]

OPERATIONS: dict[str, tuple[Operation, set[str]]] = {
    "join anew": (
        lambda s, w: membership.join(s.store, w, name="new", now=9),
        (WORKERS_OF_ACME | {"stranger"}) - {"lead agent"},
    ),
    "join as it": (lambda s, w: membership.join(s.store, w, name="m", id="m", now=9), ITS_OWN),
    "get_member": (lambda s, w: membership.get_member(s.store, w, "m", now=9), EYES_OF_ACME),
    "list_members": (
        lambda s, w: membership.list_members(s.store, w, now=9),
        EYES_OF_ACME | {"stranger"},
    ),
    "page_members": (
        lambda s, w: membership.page_members(s.store, w, after=None, most=9, now=9),
        EYES_OF_ACME | {"stranger"},
    ),
    "list_limits": (
        lambda s, w: views.list_limits(s.store, w, now=9),
        EYES_OF_ACME | {"stranger"},
    ),
    "find_own": (
        lambda s, w: membership.find_own(s.store, w, now=9),
        WORKERS_OF_ACME | {"stranger"},
    ),
    "ping": (lambda s, w: membership.ping(s.store, w, "m", now=9), ITS_OWN),
    "close": (lambda s, w: membership.close(s.store, w, "m", now=9), ITS_OWN),
    "send": (
        lambda s, w: dispatch.send(s.store, w, NewWork(text="x", tenant=ACME), now=9),
        WORKERS_OF_ACME,
    ),
    "send as it": (
        lambda s, w: dispatch.send(s.store, w, NewWork(text="x", sender="m"), now=9),
        ITS_OWN,
    ),
    "assign": (
        lambda s, w: dispatch.send(s.store, w, NewWork(text="x", to="m", how="queue"), now=9),
        WORKERS_OF_ACME,
    ),
    "offer": (
        lambda s, w: dispatch.send(s.store, w, NewWork(text="x", to="m", how="offer"), now=9),
        WORKERS_OF_ACME,
    ),
    "prefer": (
        lambda s, w: dispatch.send(s.store, w, NewWork(text="x", to="m", how="prefer"), now=9),
        WORKERS_OF_ACME,
    ),
    "depend": (
        lambda s, w: dispatch.send(s.store, w, NewWork(text="x", needs=(s.held,)), now=9),
        WORKERS_OF_ACME,
    ),
    "claim": (lambda s, w: member_work.claim(s.store, w, "m", s.ready, now=9), ITS_OWN),
    "accept": (lambda s, w: member_work.accept(s.store, w, "m", s.offered, now=9), ITS_OWN),
    "reject": (lambda s, w: member_work.reject(s.store, w, "m", s.offered, now=9), ITS_OWN),
    "release": (lambda s, w: member_work.release(s.store, w, s.fence, now=9), ITS_OWN),
    "progress": (lambda s, w: member_work.progress(s.store, w, s.fence, text="x", now=9), ITS_OWN),
    "finish": (lambda s, w: member_work.finish(s.store, w, s.fence, DONE, now=9), ITS_OWN),
    "claim_files": (
        lambda s, w: member_work.claim_files(s.store, w, s.fence, ["x"], now=9),
        ITS_OWN,
    ),
    "cancel": (lambda s, w: member_work.cancel(s.store, w, s.ready, now=9), ITS_OWN),
    "poll": (lambda s, w: poll.poll(s.store, w, "m", now=9), ITS_OWN),
    "message to it": (
        lambda s, w: inbox.send_message(s.store, w, "hey", member="m", now=9),
        WORKERS_OF_ACME,
    ),
    "message to its task": (
        lambda s, w: inbox.send_message(s.store, w, "hey", task=s.held, now=9),
        WORKERS_OF_ACME,
    ),
    "read its messages": (lambda s, w: inbox.read_messages(s.store, w, member="m", now=9), ITS_OWN),
    "read a task's messages": (
        lambda s, w: inbox.read_messages(s.store, w, task=s.held, now=9),
        set(),
    ),
    "list_tasks": (
        lambda s, w: views.list_tasks(s.store, w, Filter(tenant=ACME)),
        EYES_OF_ACME,
    ),
    "list_lines": (
        lambda s, w: views.list_lines(s.store, w, Filter(tenant=ACME)),
        EYES_OF_ACME,
    ),
    "get_task": (lambda s, w: views.get_task(s.store, w, s.held), EYES_OF_ACME),
    "explain": (lambda s, w: views.explain(s.store, w, s.held, now=9), EYES_OF_ACME),
    # Of an attempt that weft itself carries out:
    "agent's news": (
        lambda s, w: inbox.find_news(s.store, w, ack=None, now=9),
        {"agent", "lead agent"},
    ),
    "agent's progress": (
        lambda s, w: member_work.progress(s.store, w, s.agents_fence, text="x", now=9),
        {"agent", "lead agent"},
    ),
    "agent's files": (
        lambda s, w: member_work.claim_files(s.store, w, s.agents_fence, ["x"], now=9),
        {"agent", "lead agent"},
    ),
    "agent's messages": (
        lambda s, w: inbox.read_messages(s.store, w, task=s.agents_task, now=9),
        {"agent", "lead agent"},
    ),
    "agent's task": (
        lambda s, w: views.get_task(s.store, w, s.agents_task),
        EYES_OF_ACME | {"agent"},
    ),
    "agent's need": (
        lambda s, w: views.get_task(s.store, w, s.agents_task - 1),
        EYES_OF_ACME | {"agent"},
    ),
    "agent's end": (
        lambda s, w: member_work.finish(s.store, w, s.agents_fence, DONE, now=9),
        set(),
    ),
    "agent's release": (lambda s, w: member_work.release(s.store, w, s.agents_fence, now=9), set()),
}


def make_scene(store: Store) -> TenantTasks:
    owner = Identity("t-own", "owner", WORK, tenant="acme")
    hire(store, "w")
    need = put(store, "need", tenant="acme")
    finish(store, go(store, "w").fence, MET, now=1)
    agents_task = put(store, "agent's", tenant="acme", needs=(str(need),))
    agents = go(store, "w")
    join(store, who=owner, max_tasks=4)
    held = post(store, "held", who=owner)
    fence = take(store, who=owner).fence
    offered = post(store, "offered", who=owner, to="m", how="offer", now=8)
    ready = post(store, "ready", who=owner)
    return TenantTasks(
        store=store,
        held=held.task,
        fence=fence,
        offered=offered.task,
        ready=ready.task,
        agents_fence=agents.fence,
        agents_task=agents_task,
    )


def test_an_operation_is_refused_to_all_it_is_not_for_and_changes_nothing(store: Store) -> None:
    tasks = make_scene(store)
    before = snapshot(store.url)
    for name, (operation, allowed) in OPERATIONS.items():
        assert allowed <= set(KINDS)
        for kind in [one for one in KINDS if one not in allowed]:
            with pytest.raises((Forbidden, NotFound, StaleFence)):
                operation(tasks, tasks.who(kind))
        assert snapshot(store.url) == before, name


@pytest.mark.parametrize("name", [name for name, (_, allowed) in OPERATIONS.items() if allowed])
def test_an_operation_is_open_to_all_it_is_for(name: str, tmp_path: Path) -> None:
    operation, allowed = OPERATIONS[name]
    for number, kind in enumerate(sorted(allowed)):
        with open_store(f"sqlite:///{tmp_path / f'{number}.db'}") as store:
            tasks = make_scene(store)
            operation(tasks, tasks.who(kind))


def test_no_operation_is_missing_from_the_table() -> None:
    offered = {
        name
        for module in (
            membership,
            dispatch,
            member_work,
            poll,
            inbox,
            views,
        )
        for name, thing in vars(module).items()
        if callable(thing)
        and getattr(thing, "__module__", "") == module.__name__
        and not name.startswith("_")
        and name[0].islower()
    }
    asked = {name for operation, _ in OPERATIONS.values() for name in operation.__code__.co_names}
    # The waiting room takes back; `address` needs no store.
    assert offered - asked == {"take_back", "address"}


def test_tenants_see_and_touch_nothing_of_each_other(store: Store) -> None:
    acme = Identity("t1", "a", WORK, tenant="acme")
    globex = Identity("t2", "g", WORK, tenant="globex")
    join(store, "a", who=acme, max_tasks=9)
    join(store, "g", who=globex, max_tasks=9)
    join(store, "any", max_tasks=9)
    ours = post(store, "ours", who=acme)
    assert poll.poll(store, globex, "g", now=2) is None
    with pytest.raises(NotFound):
        member_work.claim(store, globex, "g", ours.task, now=2)
    assert {one.id for one in membership.list_members(store, globex, now=2)} == {"g", "any"}
    assert views.list_tasks(store, globex, Filter()).tasks == ()
    with pytest.raises(Forbidden):
        views.list_tasks(store, globex, Filter(tenant="acme"))
    assert take(store, "a", who=acme).task == ours.task


def test_an_identity_is_what_its_token_says(store: Store) -> None:
    token, _ = create_token(store, name="ci", scopes=["work"], tenant="acme", now=1)
    who = from_token(token)
    assert (who.token, who.name, who.scopes, who.tenant) == (token.id, "ci", WORK, "acme")
    assert (who.fence, who.task) == (None, None)
