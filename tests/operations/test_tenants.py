"""What a tenant is told of a queue and of limits that it shares with others."""

from __future__ import annotations

from store_helpers import go, hire, url
from swarm_helpers import ACME, OWNER, join, post
from weft.model import AgentFile, NewRun, NewTask, Outcome, State
from weft.operations.looking import look_at_queue, why
from weft.operations.swarm.explaining import explain
from weft.operations.swarm.identity import Identity
from weft.operations.swarm.limits import list_limits
from weft.store import Store
from weft.store.leases import finish
from weft.store.runs import submit_run
from weft.web import wire

__all__ = ["url"]

CANDIDATE = Outcome(state=State.GATING, candidate="c" * 40, base="b" * 40)


def test_a_tenant_is_told_of_its_own_queue_and_who_has_none_of_everybodys(store: Store) -> None:
    hire(store)
    for tenant in ("acme", "other"):
        submit_run(store, NewRun(id=tenant, repo="r", tenant=tenant), [NewTask(name="t")], now=0)
        finish(store, go(store).fence, CANDIDATE, now=1)
    post(store, who=OWNER)
    own = post(store, who=ACME)
    every = wire.queue(look_at_queue(store, now=2, most=5), 5)
    assert (every["count"], [one["run"] for one in every["gates"]]) == (2, ["acme", "other"])
    theirs = wire.queue(look_at_queue(store, now=2, most=5, tenant="acme"), 5)
    assert ([one["task"] for one in theirs["ready"]], theirs["count"]) == ([own.task], 1)
    assert [one["run"] for one in theirs["gates"]] == ["acme"]
    [first] = wire.queue(look_at_queue(store, now=2, most=1), 1)["gates"]
    assert first["run"] == "acme"


def test_a_tenant_is_told_its_place_among_its_own(store: Store) -> None:
    post(store, who=OWNER)
    own = post(store, who=ACME)
    place, among_all = explain(store, ACME, own.task, now=2).place, why(store, "2", now=2).place
    assert place is not None
    assert (place.number, place.of, place.ahead) == (1, 1, ())
    assert among_all is not None
    assert (among_all.number, among_all.of, among_all.ahead) == (2, 2, (1,))


def test_a_tenant_is_told_shared_limits_and_its_own_and_no_path_of_the_server(
    store: Store,
) -> None:
    file = AgentFile(name="implement", source="/home/ann/p/.weft/implement.md", max_concurrency=2)
    hire(store, agents=(file,), host_limits={"ram_mb": 100})
    join(store, "mine", who=ACME)
    join(store, "foreign", who=OWNER)  # works for everybody
    join(store, "theirs", who=Identity("t-x", "x", frozenset({"work"}), tenant="x"))
    for tenant in ("acme", "x"):
        submit_run(store, NewRun(id=f"r-{tenant}", repo="r", tenant=tenant), [], now=0)
    told = {one.resource: one.owner for one in list_limits(store, ACME, now=1)}
    assert told.keys() >= {"llm", "requests", "run/agents", "run:r-acme/agents", "worker:mine"}
    assert told["agent:implement"] == "its agent file"
    assert "worker:foreign" in told
    hidden = {"worker:theirs", "worker:w", "host:h/ram_mb", "run:r-x/agents", "gate:r-x"}
    assert not told.keys() & hidden
    every = {one.resource: one.owner for one in list_limits(store, OWNER, now=1)}
    assert every.keys() >= hidden
    assert every["agent:implement"] == file.source
