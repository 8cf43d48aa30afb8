"""A tenant's token: what it is told of others over every face, and what it cannot do."""

from __future__ import annotations

import itertools
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from api_http.server_process import Client, Server, serving
from databases import look

_numbers = itertools.count(1)


def two_tenants(server: Server) -> tuple[Client, Client]:
    number = next(_numbers)
    mine, theirs = (server.make_token(tenant=f"{name} {number}") for name in ("mine", "theirs"))
    return server.client(mine), server.client(theirs)


def answer(client: Client, method: str, path: str, body: object = None) -> tuple[int, Any]:
    found = client.http.request(method, path, json=body)
    return found.status_code, found.json()


def without(said: tuple[int, Any], number: int) -> str:
    """An answer without the number that was asked for."""
    return re.sub(rf"\b{number}\b", "N", str(said))


def test_a_foreign_task_and_a_missing_one_give_the_same_answer(server: Server) -> None:
    mine, theirs = two_tenants(server)
    foreign, missing = theirs.send("secret"), 10**9
    for method, path, body in (
        ("GET", "/v1/tasks/{}", None),
        ("GET", "/v1/tasks/{}/why", None),
        ("GET", "/v1/tasks/{}/logs", None),
        ("GET", "/v1/tasks/{}/diff", None),
        ("GET", "/v1/events?task={}", None),
        ("POST", "/v1/tasks/{}/cancel", {}),
        ("POST", "/v1/tasks/{}/messages", {"text": "x"}),
    ):
        said = [answer(mine, method, path.format(task), body) for task in (foreign, missing)]
        assert said[0][0] == 404
        assert without(said[0], foreign) == without(said[1], missing)
    needs = [
        answer(mine, "POST", "/v1/tasks", {"text": "x", "needs": [task]})
        for task in (foreign, missing)
    ]
    assert without(needs[0], foreign) == without(needs[1], missing)
    member = mine.join()
    for verb, body in (("claim", None), ("accept", None), ("reject", {})):
        said = [
            answer(mine, "POST", f"/v1/tasks/{task}/{verb}", body) for task in (foreign, missing)
        ]
        assert said[0][0] == 404
        assert without(said[0], foreign) == without(said[1], missing)
    mine.post(f"/v1/agents/{member}/close")


def test_a_foreign_fence_and_an_unknown_one_give_the_same_answer(server: Server) -> None:
    mine, theirs = two_tenants(server)
    agent, task = theirs.join(), theirs.send()
    _, foreign = theirs.take(agent)
    own, unknown = mine.send(), 10**9
    for verb, rest in (
        ("finish", {"status": "completed"}),
        ("progress", {"text": "x"}),
        ("release", {}),
        ("files", {"files": ["a"]}),
    ):
        for number in (own, task, 10**8):
            said = [
                answer(mine, "POST", f"/v1/tasks/{number}/{verb}", {"fence": fence, **rest})
                for fence in (foreign, unknown)
            ]
            assert said[0][0] == 409
            assert without(said[0], foreign) == without(said[1], unknown)
    assert theirs.finish(task, foreign)["state"] == "done"


def test_a_fence_ends_the_task_it_is_of_and_no_other(server: Server) -> None:
    mine, _ = two_tenants(server)
    agent = mine.join(max_tasks=2)
    mine.send(), mine.send()
    (first, one), (second, two) = mine.take(agent), mine.take(agent)
    for verb, rest in (
        ("finish", {"status": "completed"}),
        ("progress", {"text": "x"}),
        ("release", {}),
        ("files", {"files": ["a"]}),
    ):
        body = {"fence": two, **rest}
        assert mine.refused(409, "POST", f"/v1/tasks/{first}/{verb}", body) == "stale_fence"
    assert [mine.state(first), mine.state(second)] == ["running", "running"]
    assert mine.finish(first, one)["state"] == "done"
    assert mine.finish(second, two)["state"] == "done"


def test_a_tenants_own_member_is_meant_by_a_name_that_others_have(server: Server) -> None:
    mine, theirs = two_tenants(server)
    name = f"ann{next(_numbers)}"
    foreign = theirs.join(name)
    status, said = answer(mine, "POST", "/v1/tasks", {"text": "x", "to": name, "how": "queue"})
    nobody = answer(mine, "POST", "/v1/tasks", {"text": "x", "to": "nobody", "how": "queue"})
    assert (status, foreign in str(said)) == (404, False)
    assert str(said).replace(name, "N") == str(nobody[1]).replace("nobody", "N")
    own = mine.join(name)
    theirs.join("x", id=f"{name}-id")
    mine.join(f"{name}-id", id=f"own-{name}")
    for called, member in ((name, own), (f"{name}-id", f"own-{name}")):
        task = mine.send(to=called, how="assign")
        assert mine.take(member)[0] == task
    for one in (foreign, f"{name}-id"):
        assert answer(mine, "GET", f"/v1/agents/{one}")[0] == 404
        assert answer(mine, "POST", f"/v1/agents/{one}/ping")[0] == 404


def test_a_tenants_token_calls_no_verb_by_name(server: Server) -> None:
    mine, _ = two_tenants(server)
    listed = server.client().get("/v1/verbs")["result"]
    call: dict[str, Any] = {"args": [], "kwargs": {}}
    before = look(server.store_url, "SELECT COUNT(*) AS n FROM events")
    for kind in ("verbs", "operations"):
        for name in listed[kind]:
            assert mine.refused(403, "POST", f"/v1/{kind}/{name}", call) == "forbidden"
        assert mine.refused(403, "POST", f"/v1/{kind}/no.such", call) == "forbidden"
    assert mine.refused(403, "GET", "/v1/verbs") == "forbidden"
    assert mine.refused(403, "GET", "/v1/changes?after=0&seconds=0") == "forbidden"
    assert look(server.store_url, "SELECT COUNT(*) AS n FROM events") == before


def test_the_first_result_stands_and_all_others_are_told_it(server: Server) -> None:
    mine, _ = two_tenants(server)
    agent, task = mine.join(), mine.send()
    _, fence = mine.take(agent)

    def finish(number: int) -> tuple[int, str]:
        body = {"fence": fence, "status": "completed", "text": f"result {number}"}
        with server.client(mine.token).http as http:
            said = http.post(f"/v1/tasks/{task}/finish", json=body)
        return said.status_code, said.text

    with ThreadPoolExecutor(20) as pool:
        said = list(pool.map(finish, range(20)))
    [first] = [number for number, (status, _) in enumerate(said) if status == 200]
    assert mine.get(f"/v1/tasks/{task}")["result"] == f"result {first}"
    others = [one for number, one in enumerate(said) if number != first]
    assert {status for status, _ in others} == {409}
    assert all(f"result {first}" in text for _, text in others)
    assert mine.finish(task, fence, text=f"result {first}")["state"] == "done"


def test_another_failure_than_the_first_is_refused_too(server: Server) -> None:
    mine, _ = two_tenants(server)
    agent, task = mine.join(), mine.send()
    _, fence = mine.take(agent)
    mine.finish(task, fence, "failed", "no power")
    again = {"fence": fence, "status": "failed", "text": "no power"}
    assert answer(mine, "POST", f"/v1/tasks/{task}/finish", again)[0] == 200
    status, said = answer(mine, "POST", f"/v1/tasks/{task}/finish", {**again, "text": "bored"})
    assert (status, "no power" in said["detail"]) == (409, True)


def test_a_key_covers_the_member_that_it_is_for(server: Server) -> None:
    mine, _ = two_tenants(server)
    ann, bob = mine.join("ann"), mine.join("bob")
    mine.send(), mine.send()
    keyed = {"Idempotency_Key": f"poll {next(_numbers)}".replace(" ", "-")}
    first = mine.post("/v1/poll", {"wait_ms": 0}, X_Weft_Agent=ann, **keyed)
    again = mine.post("/v1/poll", {"wait_ms": 0}, X_Weft_Agent=ann, **keyed)
    assert first == again
    headers = {"X-Weft-Agent": bob, "Idempotency-Key": keyed["Idempotency_Key"]}
    other = mine.http.post("/v1/poll", json={"wait_ms": 0}, headers=headers)
    assert other.status_code >= 400
    assert "fence" not in other.text


def test_the_token_of_a_lead_does_not_join(server: Server) -> None:
    mine, _ = two_tenants(server)
    agent, _ = mine.join(), mine.send()
    _, fence = mine.take(agent)
    lead = server.client(server.make_token("read", "work", fence=fence))
    body = {"name": "second", "max_tasks": 20}
    assert lead.refused(403, "POST", "/v1/agents", body) == "forbidden"


def test_members_take_as_many_tasks_as_the_server_says(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'weft.db'}"
    with serving(tmp_path, url, MAX_CONCURRENT_TASKS="3") as server:
        client = server.client()
        assert client.post("/v1/agents", {"name": "http"})["capacity"]["max"] == 3
        request = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": "join_swarm", "arguments": {"name": "mcp"}},
        }
        headers = {"Accept": "application/json, text/event-stream"}
        said = client.http.post("/mcp", json=request, headers=headers).json()
        assert said["result"]["structuredContent"]["max"] == 3
