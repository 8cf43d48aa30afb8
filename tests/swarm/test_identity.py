"""Who may do what: every operation asked for by every kind of identity.

What is refused is refused with `Forbidden` and has changed nothing.
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
from weft.operations import dispatch, inbox, long_poll, member_work, membership, reading
from weft.operations.identity import LOCAL, Identity, from_token
from weft.operations.member_records import NewWork
from weft.operations.operation_list import OPERATIONS as REGISTERED
from weft.store import Store, open_store
from weft.store.attempt_end import finish
from weft.store.tokens import create_token

WORK = frozenset({"work"})


@dataclass(frozen=True)
class MemberTasks:
    """A member that holds one task and is offered another, and a third."""

    store: Store
    held: int
    fence: int
    offered: int
    ready: int
    agents_fence: int  # of an agent that weft started
    agents_task: int

    def who(self, kind: str) -> Identity:
        agent: dict[str, Any] = {"fence": self.agents_fence, "task": self.agents_task}
        return {
            "owner": Identity("t-own", "owner", WORK),
            "admin": LOCAL,
            "colleague": Identity("t-col", "colleague", WORK),
            "reader": Identity("t-read", "reader", frozenset({"read"})),
            "of another tenant": Identity("t-str", "stranger", WORK, tenant="globex"),
            "nobody": Identity("t-none", "nobody", frozenset()),
            "agent": Identity("t-agent", "agent", frozenset({"read"}), **agent),
            "lead agent": Identity("t-lead", "lead", WORK, **agent),
        }[kind]


KINDS = (
    "owner",
    "admin",
    "colleague",
    "reader",
    "of another tenant",
    "nobody",
    "agent",
    "lead agent",
)
ITS_OWN = {"owner", "admin"}
WORKERS = {"owner", "admin", "colleague", "of another tenant", "lead agent"}
READERS = WORKERS | {"reader"}

Operation = Callable[[MemberTasks, Identity], object]

OPERATIONS: dict[str, tuple[Operation, set[str]]] = {
    "join anew": (
        lambda s, w: membership.join(s.store, w, name="new", now=9),
        WORKERS - {"lead agent"},
    ),
    "join as it": (lambda s, w: membership.join(s.store, w, name="m", id="m", now=9), ITS_OWN),
    "get_member": (lambda s, w: membership.get_member(s.store, w, "m", now=9), READERS),
    "list_members": (
        lambda s, w: membership.list_members(s.store, w, now=9),
        READERS,
    ),
    "page_members": (
        lambda s, w: membership.page_members(s.store, w, after=None, most=9, now=9),
        READERS,
    ),
    "find_own": (
        lambda s, w: membership.find_own(s.store, w, now=9),
        WORKERS,
    ),
    "ping": (lambda s, w: membership.ping(s.store, w, "m", now=9), ITS_OWN),
    "close": (lambda s, w: membership.close(s.store, w, "m", now=9), ITS_OWN),
    "send": (
        lambda s, w: dispatch.send(s.store, w, NewWork(text="x", tenant="acme"), now=9),
        WORKERS - {"of another tenant"},
    ),
    "send as it": (
        lambda s, w: dispatch.send(s.store, w, NewWork(text="x", sender="m"), now=9),
        ITS_OWN,
    ),
    "assign": (
        lambda s, w: dispatch.send(s.store, w, NewWork(text="x", to="m", how="queue"), now=9),
        WORKERS,
    ),
    "offer": (
        lambda s, w: dispatch.send(s.store, w, NewWork(text="x", to="m", how="offer"), now=9),
        WORKERS,
    ),
    "prefer": (
        lambda s, w: dispatch.send(s.store, w, NewWork(text="x", to="m", how="prefer"), now=9),
        WORKERS,
    ),
    "depend": (
        lambda s, w: dispatch.send(s.store, w, NewWork(text="x", needs=(s.held,)), now=9),
        WORKERS,
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
    "report_work": (
        lambda s, w: member_work.report_work(s.store, w, s.fence, "x", now=9),
        ITS_OWN,
    ),
    "poll": (lambda s, w: long_poll.poll(s.store, w, "m", now=9), ITS_OWN),
    "message to it": (
        lambda s, w: inbox.send_message(s.store, w, "hey", member="m", now=9),
        WORKERS,
    ),
    "message to its task": (
        lambda s, w: inbox.send_message(s.store, w, "hey", task=s.held, now=9),
        WORKERS,
    ),
    "read its messages": (lambda s, w: inbox.read_messages(s.store, w, member="m", now=9), ITS_OWN),
    "read a task's messages": (
        lambda s, w: inbox.read_messages(s.store, w, task=s.held, now=9),
        set(),
    ),
    "list_tasks": (
        lambda s, w: reading.list_tasks(s.store, w, Filter()),
        READERS,
    ),
    "list_lines": (
        lambda s, w: reading.list_lines(s.store, w, Filter()),
        READERS,
    ),
    "get_task": (lambda s, w: reading.get_task(s.store, w, s.held), READERS),
    "explain": (lambda s, w: reading.explain(s.store, w, s.held, now=9), READERS),
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
        lambda s, w: reading.get_task(s.store, w, s.agents_task),
        READERS | {"agent"},
    ),
    "agent's need": (
        lambda s, w: reading.get_task(s.store, w, s.agents_task - 1),
        READERS | {"agent"},
    ),
    "agent's end": (
        lambda s, w: member_work.finish(s.store, w, s.agents_fence, DONE, now=9),
        set(),
    ),
    "agent's release": (lambda s, w: member_work.release(s.store, w, s.agents_fence, now=9), set()),
}


def make_scene(store: Store) -> MemberTasks:
    owner = Identity("t-own", "owner", WORK)
    hire(store, "w")
    need = put(store, "need")
    finish(store, go(store, "w").fence, MET, now=1)
    agents_task = put(store, "agent's", needs=(str(need),))
    agents = go(store, "w")
    join(store, who=owner, max_tasks=4)
    held = post(store, "held", who=owner)
    fence = take(store, who=owner).fence
    offered = post(store, "offered", who=owner, to="m", how="offer", now=8)
    ready = post(store, "ready", who=owner)
    return MemberTasks(
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
            long_poll,
            inbox,
            reading,
        )
        for name, thing in vars(module).items()
        if callable(thing)
        and getattr(thing, "__module__", "") == module.__name__
        and not name.startswith("_")
        and name[0].islower()
    }
    asked = {name for operation, _ in OPERATIONS.values() for name in operation.__code__.co_names}
    # The waiting room takes back; the others need a project.
    rest = offered - asked - set(REGISTERED)  # those have their rule in `test_rights`
    assert {name for name in rest if not name.startswith(("ack_", "confirmed_"))} == {
        "address",
        "find_agent_of",
        "find_problem",
        "propose",
        "refuse_more_files",
        "submit_text",
        "take_back",
        "write",
    }


def test_an_identity_is_what_its_token_says(store: Store) -> None:
    token, _ = create_token(store, name="ci", scopes=["work"], tenant="acme", now=1)
    who = from_token(token)
    assert (who.token, who.name, who.scopes, who.tenant) == (token.id, "ci", WORK, "acme")
    assert (who.fence, who.task) == (None, None)
