"""What a tenant is told of a queue and of limits that it shares with others."""

from __future__ import annotations

from store_helpers import go, hire, url
from swarm_helpers import ACME, OWNER, join, post
from weft.api.http import wire
from weft.model import AgentFile, NewRun, NewTask, Outcome, State
from weft.runs.explanation import explain_task
from weft.runs.queue_view import read_queue
from weft.store import Store
from weft.store.attempt_end import finish
from weft.store.runs import submit_run
from weft.store.tasks import get_task
from weft.swarm.identity import Identity
from weft.swarm.member_work import claim_files
from weft.swarm.views import explain, list_limits

__all__ = ["url"]

CANDIDATE = Outcome(state=State.GATING, candidate="c" * 40, base="b" * 40)


def test_a_tenant_is_told_of_its_own_queue_and_who_has_none_of_everybodys(store: Store) -> None:
    hire(store)
    for tenant in ("acme", "other"):
        submit_run(store, NewRun(id=tenant, repo="r", tenant=tenant), [NewTask(name="t")], now=0)
        finish(store, go(store).fence, CANDIDATE, now=1)
    post(store, who=OWNER)
    own = post(store, who=ACME)
    every = wire.queue(read_queue(store, now=2, most=5), 5)
    assert (every["count"], [one["run"] for one in every["gates"]]) == (2, ["acme", "other"])
    theirs = wire.queue(read_queue(store, now=2, most=5, tenant="acme"), 5)
    assert ([one["task"] for one in theirs["ready"]], theirs["count"]) == ([own.task], 1)
    assert [one["run"] for one in theirs["gates"]] == ["acme"]
    [first] = wire.queue(read_queue(store, now=2, most=1), 1)["gates"]
    assert first["run"] == "acme"


def test_a_tenant_is_told_its_place_among_its_own(store: Store) -> None:
    post(store, who=OWNER)
    own = post(store, who=ACME)
    place = explain(store, ACME, own.task, now=2).place
    among_all = explain_task(store, "2", now=2).place
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


def test_a_tenant_is_told_neither_files_nor_numbers_of_anothers_task(store: Store) -> None:
    """Both work in one repository, so that their files exclude each other."""
    hire(store, slots=3)
    secret = "src/secret_plans.py"
    for tenant, files in (("other", (secret,)), ("acme", ("src/**",))):
        submit_run(
            store,
            NewRun(id=tenant, repo="r", tenant=tenant),
            [NewTask(name=f"t-{tenant}", files=files)],
            now=0,
        )
    grant = go(store)
    own = 3 - grant.task
    explained = str(explain(store, ACME, own, now=2).waits)
    queued = str(wire.queue(read_queue(store, now=2, most=5, tenant="acme"), 5)["ready"])
    for told in (explained, queued):
        assert "another tenant's task" in told
        assert secret not in told
        assert f"task {grant.task}" not in told
        assert "t-other" not in told
    everything = str(explain_task(store, str(own), now=2).waits)
    assert f"waiting for {secret}, which other/t-other is changing" in everything


def test_files_that_another_tenants_task_holds_are_refused_without_its_number(
    store: Store,
) -> None:
    hire(store, slots=3)
    for tenant, file in (("other", "a.py"), ("acme", "b.py"), ("acme", "c.py")):
        name = f"{tenant}-{file}"
        submit_run(
            store,
            NewRun(id=name.replace(".", "-"), repo="r", tenant=tenant),
            [NewTask(name=name, files=(file,))],
            now=0,
        )
    grants = {
        get_task(store, grant.task).name: grant for grant in (go(store), go(store), go(store))
    }
    own, sibling = grants["acme-b.py"], grants["acme-c.py"]
    agent = Identity(
        "t", "agent", frozenset({"read"}), tenant="acme", fence=own.fence, task=own.task
    )
    held = claim_files(store, agent, own.fence, ["a.py", "c.py"], now=2)
    assert held == {"a.py": 0, "c.py": sibling.task}
