"""Requests that are sent again."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from api_http.server_process import Server


def test_a_repeated_request_is_answered_the_same_and_done_once(server: Server) -> None:
    client = server.apart()
    first = client.post("/v1/tasks", {"text": "once", "agent": client.kind}, Idempotency_Key="k")
    again = client.post("/v1/tasks", {"text": "once", "agent": client.kind}, Idempotency_Key="k")
    assert first == again
    assert len(client.get("/v1/tasks", params={"agent": client.kind})["tasks"]) == 1
    other = client.http.post(
        "/v1/tasks", json={"text": "twice", "agent": client.kind}, headers={"Idempotency-Key": "k"}
    )
    assert other.status_code == 422
    assert len(client.get("/v1/tasks", params={"agent": client.kind})["tasks"]) == 1


def test_a_key_is_its_tokens_own(server: Server) -> None:
    one, two = server.apart(), server.apart()
    first = one.post("/v1/tasks", {"text": "same", "agent": one.kind}, Idempotency_Key="k")
    second = two.post("/v1/tasks", {"text": "same", "agent": two.kind}, Idempotency_Key="k")
    assert first["task"] != second["task"]


def test_what_was_refused_is_tried_anew(server: Server) -> None:
    client = server.apart()
    agent = client.join()
    task = client.send()
    body = {"fence": 10**9, "status": "completed"}
    key = {"Idempotency-Key": "k"}
    refused = client.http.post(f"/v1/tasks/{task}/finish", json=body, headers=key)
    assert refused.status_code in (404, 409)
    _, fence = client.take(agent)
    good = {"fence": fence, "status": "completed"}
    assert client.http.post(f"/v1/tasks/{task}/finish", json=good, headers=key).is_success


def test_many_at_once_with_one_key_do_it_once(server: Server) -> None:
    client = server.apart()

    def send(_: int) -> object:
        return client.post(
            "/v1/tasks", {"text": "once", "agent": client.kind}, Idempotency_Key="many"
        )

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(send, range(16)))
    assert all(one == answers[0] for one in answers)
    assert len(client.get("/v1/tasks", params={"agent": client.kind})["tasks"]) == 1


def test_a_repeated_poll_gives_the_same_task_and_not_another(server: Server) -> None:
    client = server.apart()
    agent = client.join(max_tasks=3)
    client.send("a")
    client.send("b")
    sent = {"X_Weft_Agent": agent, "Idempotency_Key": "p"}
    first = client.post("/v1/poll", {"wait_ms": 0}, **sent)
    again = client.post("/v1/poll", {"wait_ms": 0}, **sent)
    assert first == again
    assert client.capacity(agent)["current"] == 1


def test_a_tokens_secret_is_shown_once_and_kept_nowhere(server: Server) -> None:
    admin = server.client()
    body = {"name": "x", "scopes": ["read"]}
    first = admin.post("/v1/tokens", body, Idempotency_Key="secret")
    again = admin.post("/v1/tokens", body, Idempotency_Key="secret")
    assert first["secret"].startswith(f"weft_{first['id']}_")
    assert again == {**first, "secret": ""}
    assert server.client(first["secret"]).get("/v1/me")["token"]["id"] == first["id"]
    assert admin.http.delete(f"/v1/tokens/{first['id']}").json()["revoked"]
    assert server.client(first["secret"]).http.get("/v1/me").status_code == 401
