"""The event stream: filtered, resumed without a gap, shared by many, closed to who is slow."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import islice
from typing import Any

import httpx

from api_http.server_process import Client, Server
from wait_until import wait_until
from weft.store.tokens import identify, revoke_token


@contextmanager
def following(
    client: Client, after: int | None = None, **query: Any
) -> Iterator[Iterator[dict[str, Any]]]:
    headers = {} if after is None else {"Last-Event-ID": str(after)}
    with client.http.stream("GET", "/v1/events", params=query, headers=headers) as answer:
        assert answer.status_code == 200, answer.read()
        assert answer.headers["content-type"].startswith("text/event-stream")
        lines = answer.iter_lines()
        assert next(lines) == ": still here"
        yield _events(lines)


def _events(lines: Iterator[str]) -> Iterator[dict[str, Any]]:
    number = None
    for line in lines:
        if line.startswith("id: "):
            number = int(line.removeprefix("id: "))
        elif line.startswith("data: "):
            event = json.loads(line.removeprefix("data: "))
            assert event["id"] == number
            yield event


def upto(events: Iterator[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    found = []
    for event in events:
        found.append(event)
        if event["kind"] == kind:
            return found
    raise AssertionError(f"the stream ended before {kind}")


def test_what_happens_is_told_as_it_happens(server: Server) -> None:
    client = server.apart()
    agent = client.join()
    with following(client) as events:
        task = client.send()
        _, fence = client.take(agent)
        client.finish(task, fence)
        told = upto(events, "attempt_finished")
    assert {one["task"] for one in told} == {task}
    assert "task_admitted" in [one["kind"] for one in told]


def test_a_stream_is_resumed_without_a_gap_or_a_repetition(server: Server) -> None:
    client = server.apart()
    agent = client.join()
    with following(client) as events:
        task = client.send()
        _, fence = client.take(agent)
        seen = upto(events, "task_admitted")
    for number in range(20):
        client.post(f"/v1/tasks/{task}/progress", {"fence": fence, "text": str(number)})
    with following(client, after=seen[-1]["id"]) as events:
        client.finish(task, fence)
        rest = upto(events, "attempt_finished")
    with following(client, after=seen[0]["id"] - 1) as events:
        whole = upto(events, "attempt_finished")
    assert [one["id"] for one in seen + rest] == [one["id"] for one in whole]
    assert sum(one["kind"] == "progress" for one in rest) == 20


def test_a_stream_can_be_of_one_task(server: Server) -> None:
    client = server.apart()
    first, second = client.send(), client.send()
    with following(client, task=second) as events:
        client.post("/v1/cancel", {"name": first})
        client.post("/v1/cancel", {"name": second})
        assert {one["task"] for one in upto(events, "task_cancelled")} == {second}


def test_a_revoked_token_opens_no_stream(server: Server) -> None:
    client = server.apart()
    with following(client):
        pass
    revoke(server, client)
    assert client.http.get("/v1/events").status_code == 401
    assert httpx.get(f"{server.url}/v1/events").status_code == 401


def test_a_token_that_is_revoked_loses_its_streams_and_others_keep_theirs(server: Server) -> None:
    mine, others = server.apart(), server.apart()
    with following(mine) as own, following(others) as kept:
        revoke(server, mine)
        task = others.send("a secret")
        assert next(own, None) is None, "the stream has ended without it"
        assert task in {event["task"] for event in islice(kept, 2)}


def revoke(server: Server, client: Client) -> None:
    with server.open_store() as store:
        token = identify(store, client.token, now=time.time())
        assert revoke_token(store, token.id, now=time.time())


def test_who_does_not_read_is_dropped_and_loses_nothing(server: Server) -> None:
    client = server.apart()
    agent = client.join()
    task = client.send()
    _, fence = client.take(agent)
    admin = server.client()

    def metric(name: str) -> float:
        lines = admin.http.get("/metrics").text.splitlines()
        [line] = [one for one in lines if one.startswith(f"{name} ")]
        return float(line.split()[1])

    wait_until(lambda: metric("weft_followers") == 0)  # those of other tests have gone
    dropped = metric("weft_followers_dropped_total")
    with socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.connect(("127.0.0.1", server.port))
        asked = (
            f"GET /v1/events?task={task} HTTP/1.1\r\nHost: localhost\r\n"
            f"Authorization: Bearer {client.token}\r\n\r\n"
        )
        slow.sendall(asked.encode())
        assert b"200 OK" in slow.recv(100)
        wait_until(lambda: metric("weft_followers") == 1)
        sent = 0
        body = {"fence": fence, "text": "x" * 200_000}
        with ThreadPoolExecutor(8) as pool:  # faster than it would be cut off for its silence
            while metric("weft_followers_dropped_total") == dropped:
                said = [
                    pool.submit(client.post, f"/v1/tasks/{task}/progress", body) for _ in range(8)
                ]
                sent += sum(bool(one.result()) for one in said)
                assert sent < 200
        assert metric("weft_followers") == 0
    with following(client, after=0, task=task) as events:
        client.finish(task, fence)
        told = upto(events, "attempt_finished")
    assert sum(one["kind"] == "progress" for one in told) == sent
