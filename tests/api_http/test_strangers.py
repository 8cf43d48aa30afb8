"""Who is not let in, and what is not let through."""

from __future__ import annotations

import io
import json
import logging
import socket
import time

import httpx
import pytest

from api_http.server_process import Server
from wait_until import PATIENCE, wait_until
from weft.api.mcp.bridge import Bridge
from weft.project.warning_log import Redaction
from weft.redaction import Redactor
from weft.store.tokens import create_token, revoke_token

MCP_HEADERS = {
    "Content-Type": "application/json",
    "Accept": "application/json, text/event-stream",
}


def raw(server: Server, data: bytes, *, seconds: float = 30) -> bytes:
    """What comes back for bytes, until the connection ends."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=seconds) as connection:
        connection.sendall(data)
        found = b""
        while part := connection.recv(1 << 16):
            found += part
        return found


def test_wrong_expired_and_revoked_tokens_are_refused_with_the_same_words(server: Server) -> None:
    with server.open_store() as store:
        now = time.time()
        gone, revoked = create_token(store, name="r", scopes=("admin",), now=now)
        revoke_token(store, gone.id, now=now)
        _, expired = create_token(store, name="e", scopes=("admin",), expires=now + 0.001, now=now)
    wrong = server.token[:-4] + "AAAA"
    wait_until(lambda: time.time() > now + 0.001)
    said = set()
    for token in ("", "nonsense", wrong, revoked, expired):
        answer = server.client(token).http.get("/v1/tasks")
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == "Bearer"
        said.add(answer.text)
    assert len(said) == 1
    assert server.client().get("/v1/me")["token"]["scopes"] == ["admin"]


def test_a_token_in_the_address_or_a_cookie_is_no_token(server: Server) -> None:
    for request in (
        {"params": {"token": server.token, "access_token": server.token}},
        {"cookies": {"token": server.token}},
        {"headers": {"Authorization": f"Basic {server.token}"}},
    ):
        with httpx.Client(base_url=server.url, **request) as client:  # type: ignore[arg-type]
            assert client.get("/v1/tasks").status_code == 401


def test_scopes_include_those_below_and_nothing_above(server: Server) -> None:
    reader = server.client(server.make_token("read"))
    worker = server.client(server.make_token("work"))
    assert reader.get("/v1/tasks")["tasks"] is not None
    assert reader.refused(403, "POST", "/v1/agents", {"name": "r"}) == "forbidden"
    assert reader.refused(403, "POST", "/v1/tasks", {"text": "t"}) == "forbidden"
    assert worker.get("/v1/limits")["limits"]
    for method, path, body in (
        ("POST", "/v1/set_limit", {"resource": "llm", "capacity": 1}),
        ("POST", "/v1/drain", {}),
        ("GET", "/v1/tokens", None),
        ("POST", "/v1/tokens", {"name": "x", "scopes": ["admin"]}),
    ):
        assert worker.refused(403, method, path, body) == "forbidden"


def test_another_token_does_not_act_for_an_agent(server: Server) -> None:
    ann, bob = server.apart(), server.apart()
    agent = ann.join()
    task = ann.send()
    _, fence = ann.take(agent)
    body = {"fence": fence, "status": "completed"}
    assert bob.refused(403, "POST", f"/v1/tasks/{task}/finish", body) == "forbidden"
    assert bob.refused(403, "POST", f"/v1/agents/{agent}/close", {}) == "forbidden"
    assert ann.finish(task, fence)["state"] == "done"


def test_a_token_of_an_attempt_is_good_for_that_and_ends_with_it(server: Server) -> None:
    owner = server.apart()
    agent = owner.join()
    task, other = owner.send(), owner.send()
    _, fence = owner.take(agent)
    bound = server.client(server.make_token("read", fence=fence))
    assert bound.get(f"/v1/tasks/{task}")["id"] == task
    assert bound.get("/v1/me")["token"]["task"] == task
    assert bound.post(f"/v1/tasks/{task}/progress", {"fence": fence, "text": "half"})
    for method, path, body in (
        ("GET", "/v1/tasks", None),
        ("GET", "/v1/agents", None),
        ("GET", "/v1/limits", None),
        ("GET", "/metrics", None),
        ("GET", f"/v1/tasks/{other}", None),
        ("GET", f"/v1/events?task={other}", None),
        ("POST", "/v1/tasks", {"text": "more"}),
        ("POST", "/v1/agents", {"name": "x"}),
        ("POST", "/v1/cancel", {"name": other}),
    ):
        assert bound.refused(403, method, path, body) == "forbidden"
    owner.finish(task, fence)
    assert bound.http.get(f"/v1/tasks/{task}").status_code == 401


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "localhost.", "", "127.0.0.1:80@evil"]
)
def test_a_name_that_is_not_ours_is_refused(server: Server, host: str) -> None:
    head = f"GET /v1/tasks HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {server.token}\r\n\r\n"
    answer = raw(server, head.encode())
    assert answer.split(b"\r\n")[0].startswith(b"HTTP/1.1 403"), answer
    assert b"problem+json" in answer


@pytest.mark.parametrize(
    "said",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1.evil.example"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_a_page_of_another_site_is_refused(server: Server, said: dict[str, str]) -> None:
    client = server.client()
    for method in ("GET", "POST", "OPTIONS"):
        answer = client.http.request(method, "/v1/tasks", headers=said)
        assert answer.status_code == 403
        assert "access-control-allow-origin" not in answer.headers


def test_a_page_of_our_own_is_let_in(server: Server) -> None:
    ours = {"Origin": server.url, "Sec-Fetch-Site": "same-origin"}
    assert server.client().http.get("/v1/me", headers=ours).status_code == 200


def test_ten_megabytes_are_refused_whether_announced_or_not(server: Server) -> None:
    client = server.client()
    large = b'{"text": "' + b"x" * 10_000_000 + b'"}'
    announced = client.http.post(
        "/v1/tasks", content=large, headers={"Content-Type": "application/json"}
    )
    assert announced.status_code == 413
    chunk = b"%x\r\n%s\r\n" % (100_000, b"x" * 100_000)
    head = (
        f"POST /v1/tasks HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {client.token}\r\n"
        "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as connection:
        connection.sendall(head.encode())
        sent = 0
        answer = b""
        try:
            while sent < 10_000_000:
                connection.sendall(chunk)
                sent += 100_000
        except (BrokenPipeError, ConnectionResetError):
            pass  # it has heard enough
        try:
            answer = connection.recv(1000)
        except ConnectionResetError:
            assert sent < 10_000_000
        assert not answer or b" 413 " in answer.split(b"\r\n")[0]


def test_what_is_no_json_is_refused_by_its_type_or_its_text(server: Server) -> None:
    client = server.client()
    form = client.http.post("/v1/tasks", data={"text": "x"})
    assert form.status_code == 415
    broken = client.http.post(
        "/v1/tasks", content=b'{"text": ', headers={"Content-Type": "application/json"}
    )
    assert broken.status_code == 400
    for body in (
        b'{"text": "\\ud800"}',
        b'{"text": 1e999}',
        b"[" * 100_000,
        b'{"text": "x", "priority": 99999999999999999999999}',
    ):
        answer = client.http.post(
            "/v1/tasks", content=body, headers={"Content-Type": "application/json"}
        )
        assert answer.status_code in (400, 422), (body[:50], answer.text)


def test_a_flood_of_headers_or_an_endless_path_is_refused(server: Server) -> None:
    client = server.client()
    many = {f"X-{number}": "1" for number in range(200)}
    assert client.http.get("/v1/me", headers=many).status_code == 431
    assert client.http.get("/v1/tasks?agent=" + "x" * 4000).status_code == 414
    flood = raw(server, b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X: y\r\n" * 20_000)
    assert flood.split(b"\r\n")[0].startswith(b"HTTP/1.1 400")
    assert client.get("/v1/me")["token"]


def test_secrets_are_not_in_the_servers_log(server: Server) -> None:
    client = server.client()
    client.http.get("/v1/tasks", params={"agent": client.token})
    raw(server, f"GARBAGE {client.token}\r\n\r\n".encode())
    assert client.token not in server.log()


def test_the_secret_of_a_token_is_taken_out_of_whatever_is_logged() -> None:
    token = "weft_0123456789ab_" + "x" * 43
    record = logging.LogRecord("weft", logging.WARNING, "", 0, "%s said %s", ("who", token), None)
    assert Redaction(Redactor()).filter(record)
    assert record.getMessage() == "who said weft_[hidden]"


def test_half_a_character_over_mcp_is_answered(server: Server) -> None:
    half = "\\ud800"
    call = '{"jsonrpc": "2.0", "id": %s, "method": "%s", "params": {"name": "%s"}}'
    asked = [call % (1, "tools/call", half), call % (f'"{half}"', "tools/list", "x")]
    client = server.client()
    for line in asked:
        refused = client.http.post("/mcp", content=line, headers=MCP_HEADERS)
        assert refused.status_code == 400
        assert refused.json()["error"]["code"] == -32700
    out = io.BytesIO()
    Bridge(server.url, client.token, out).carry([line.encode() for line in asked])
    answers = {json.loads(line)["id"] for line in out.getvalue().splitlines()}
    assert answers == {1, "\ud800"}
    assert client.get("/v1/me")["token"]
