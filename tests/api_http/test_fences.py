"""Fences, results and keys of members over HTTP."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from api_http.server_process import Client, Server, serving

_numbers = itertools.count(1)


def answer(client: Client, method: str, path: str, body: object = None) -> tuple[int, Any]:
    got = client.http.request(method, path, json=body)
    return got.status_code, got.json()


def test_a_fence_ends_the_task_it_is_of_and_no_other(server: Server) -> None:
    mine = server.apart()
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


def test_the_first_result_stands_and_all_others_are_told_it(server: Server) -> None:
    mine = server.apart()
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
    mine = server.apart()
    agent, task = mine.join(), mine.send()
    _, fence = mine.take(agent)
    mine.finish(task, fence, "failed", "no power")
    again = {"fence": fence, "status": "failed", "text": "no power"}
    assert answer(mine, "POST", f"/v1/tasks/{task}/finish", again)[0] == 200
    status, said = answer(mine, "POST", f"/v1/tasks/{task}/finish", {**again, "text": "bored"})
    assert (status, "no power" in said["detail"]) == (409, True)


def test_a_key_covers_the_member_that_it_is_for(server: Server) -> None:
    mine = server.apart()
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
    mine = server.apart()
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
