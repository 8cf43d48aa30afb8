"""The table of rights: for each token, face and operation, whether it is allowed or refused.

The operations come from the OpenAPI document, the verbs of the store and the tools for agents, so
that a new one without a row fails here. A call is refused if the answer is 401 or 403, or over MCP
a sentence that says so; any other answer, such as 404 for a member that is not there, is allowed.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from api_http.server_process import Client, Server, serving
from weft.api.http.app import create_app
from weft.api.http.routes.verb_routes import operations
from weft.api.mcp.catalogue import TOOLS
from weft.project.project import get_local_project
from weft.store import open_store
from weft.store.remote_calls import all_verbs
from weft.store.tokens import create_token

TOKENS = ("none", "read", "work", "admin", "tenant read", "tenant work", "attempt", "lead")
"""`tenant …` are of the tenant acme, and so are the tokens of an attempt and of a lead's attempt;
`tenant work` owns the member and sent the tasks that the calls are about."""

EVERYBODY = frozenset(TOKENS)
KNOWN = EVERYBODY - {"none"}
READERS = KNOWN - {"attempt"}
WORKERS = READERS - {"read", "tenant read"}
JOINERS = WORKERS - {"lead"}
OWNERS = frozenset({"admin", "tenant work"})
HOLDERS = OWNERS | {"attempt", "lead"}
OWN_AGENTS = frozenset({"attempt", "lead"})
ADMINS = frozenset({"admin"})
ABOUT_ALL = frozenset({"read", "work", "admin"})

PLAN = "no plan at all"
HTTP: Mapping[str, tuple[frozenset[str], object]] = {
    "GET /healthz": (EVERYBODY, None),
    "GET /readyz": (EVERYBODY, None),
    "GET /metrics": (ABOUT_ALL, None),
    "POST /v1/tasks": (WORKERS, {"text": "x"}),
    "GET /v1/tasks": (READERS, None),
    "GET /v1/tasks/{task}": (KNOWN, None),
    "POST /v1/tasks/{task}/claim": (WORKERS, {}),
    "POST /v1/tasks/{task}/accept": (WORKERS, {}),
    "POST /v1/tasks/{task}/reject": (WORKERS, {}),
    "POST /v1/tasks/{sent}/release": (OWNERS, {"fence": "{fence}"}),
    "POST /v1/tasks/{task}/progress": (HOLDERS, {"fence": "{fence}", "text": "x"}),
    "POST /v1/tasks/{sent}/finish": (OWNERS, {"fence": "{fence}", "status": "completed"}),
    "POST /v1/tasks/{sent}/cancel": (OWNERS, {}),
    "POST /v1/tasks/{task}/files": (HOLDERS, {"fence": "{fence}", "files": ["a"]}),
    "POST /v1/tasks/{task}/messages": (WORKERS, {"text": "x"}),
    "GET /v1/tasks/{task}/messages": (OWN_AGENTS, None),
    "GET /v1/tasks/{task}/why": (KNOWN, None),
    "GET /v1/tasks/{task}/logs": (KNOWN, None),
    "GET /v1/tasks/{task}/diff": (KNOWN, None),
    "GET /v1/tasks/{task}/review": (KNOWN, None),
    "GET /v1/reviews": (READERS, None),
    "POST /v1/reviews/{candidate}/comments": (ADMINS, {"text": "x"}),
    "DELETE /v1/reviews/{candidate}/comments/{task}": (ADMINS, None),
    "POST /v1/reviews/{candidate}/send": (ADMINS, {}),
    "POST /v1/reviews/{candidate}/accept": (ADMINS, {}),
    "POST /v1/agents": (JOINERS, {"name": "x"}),
    "GET /v1/agents": (READERS, None),
    "GET /v1/agents/{member}": (READERS, None),
    "POST /v1/agents/{member}/ping": (OWNERS, {}),
    "POST /v1/agents/{spare}/close": (OWNERS, {}),
    "GET /v1/me": (KNOWN, None),
    "POST /v1/poll": (WORKERS, {"wait_ms": 0}),
    "GET /v1/messages": (WORKERS, None),
    "POST /v1/agents/{member}/messages": (WORKERS, {"text": "x"}),
    "POST /v1/runs": (ADMINS, {"plan": PLAN}),
    "GET /v1/runs": (READERS, None),
    "GET /v1/runs/{run}": (READERS, None),
    "POST /v1/runs/{run}/pause": (ADMINS, {}),
    "POST /v1/runs/{run}/drain": (ADMINS, {}),
    "POST /v1/runs/{run}/resume": (ADMINS, {}),
    "POST /v1/runs/{run}/cancel": (ADMINS, {}),
    "GET /v1/limits": (READERS, None),
    "PUT /v1/limits/{resource}": (ADMINS, {"capacity": 5}),
    "GET /v1/queue": (READERS, None),
    "GET /v1/cost": (READERS, None),
    "POST /v1/drain": (ADMINS, {"undo": True}),
    "GET /v1/events": (KNOWN, None),
    "POST /v1/tokens": (ADMINS, {"name": "x", "scopes": ["read"]}),
    "GET /v1/tokens": (ADMINS, None),
    "DELETE /v1/tokens/{token}": (ADMINS, None),
    # Open to tokens of hosts alone: `test_git_endpoint`.
    "POST /v1/hosts": (frozenset(), {"name": "x"}),
    "POST /v1/hosts/token": (frozenset(), {}),
    "POST /v1/hosts/token/confirmation": (frozenset(), {}),
}
MCP: Mapping[str, tuple[frozenset[str], Mapping[str, object]]] = {
    "join_swarm": (JOINERS, {"name": "x"}),
    "my_agent_info": (WORKERS | OWN_AGENTS, {}),
    "get_swarm": (READERS, {}),
    "send_task": (WORKERS, {"text": "x"}),
    "get_tasks": (READERS, {}),
    "get_task": (KNOWN, {"task": "{task}"}),
    "task_action": (JOINERS, {"action": "reject", "task": "{task}"}),
    "poll_task": (HOLDERS, {"wait_ms": 0, "me": "{member}"}),
    "store_progress": (HOLDERS, {"text": "x", "fence": "{fence}"}),
    "claim_files": (HOLDERS, {"files": ["a"], "fence": "{fence}"}),
    "why": (KNOWN, {"task": "{task}"}),
    "get_reviews": (READERS, {}),
    "get_review": (KNOWN, {"task": "{task}"}),
    "review_action": (ADMINS, {"action": "accept", "candidate": "{candidate}"}),
    "answer_comment": (
        HOLDERS,
        {"comment": 1, "answer": "handled", "reason": "x", "fence": "{fence}"},
    ),
    "hand_over": (OWN_AGENTS, {"agent": "nobody"}),
    "ask": (OWN_AGENTS, {"question": "x"}),
    "sleep": (OWN_AGENTS, {"until": "1h"}),
    "submit_plan": (ADMINS, {"plan": PLAN}),
}
UNDOCUMENTED: Mapping[str, frozenset[str]] = {
    "GET /v1/verbs": ABOUT_ALL,
    "POST /v1/verbs": ABOUT_ALL,
    "GET /v1/changes?after=0&seconds=0": ABOUT_ALL,
}
REFUSALS = (
    "Only an agent that weft started",
    "needs a token",
    "token is for one",
    "weft started you",
    "Only an admin",
    "joined with another token",
)


@dataclass
class RightsServer:
    """A server, a client for each token, and the things that calls are about."""

    server: Server
    clients: dict[str, Client]
    named: dict[str, str | int]
    foreign: dict[str, str | int]


@pytest.fixture(scope="module")
def rights(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RightsServer]:
    directory: Path = tmp_path_factory.mktemp("rights")
    with serving(directory, f"sqlite:///{directory / 'weft.db'}") as server:
        own, other = (server.client(server.make_token(tenant=name)) for name in ("acme", "other"))
        named, foreign = (_fill(client) for client in (own, other))
        fence = named["fence"]
        assert isinstance(fence, int)
        texts = {
            "none": "",
            "read": _make(server, "read"),
            "work": _make(server, "read", "work"),
            "admin": server.token,
            "tenant read": _make(server, "read", tenant="acme"),
            "tenant work": own.token,
            "attempt": _make(server, "read", tenant="acme", fence=fence),
            "lead": _make(server, "read", "work", tenant="acme", fence=fence),
        }
        clients = {kind: server.client(text) for kind, text in texts.items()}
        yield RightsServer(server, clients, named, foreign)


def _make(server: Server, *scopes: str, tenant: str | None = None, fence: int | None = None) -> str:
    with server.open_store() as store:
        made = create_token(
            store, name="t", scopes=scopes, tenant=tenant, fence=fence, now=time.time()
        )
    return made[1]


def _fill(client: Client) -> dict[str, str | int]:
    member, spare = client.join("ann"), client.join("spare")
    client.send("held", to=member, how="assign")
    task, fence = client.take(member)
    sent = client.send("sent", agent="nobody")
    return {
        "task": task,
        "sent": sent,
        "fence": fence,
        "member": member,
        "spare": spare,
        "run": "no-such-run",
        "candidate": "no-such-candidate",
        "resource": "llm",
        "token": "no-such-token",
    }


def _filled(value: Any, named: Mapping[str, str | int]) -> Any:
    """A body with the things it is about put in for their names."""
    if isinstance(value, Mapping):
        return {key: _filled(part, named) for key, part in value.items()}
    if isinstance(value, str) and value[:1] == "{":
        return named[value.strip("{}")]
    return value


def _status(client: Client, operation: str, body: object, named: Mapping[str, str | int]) -> int:
    method, path = operation.split(" ")
    # /v1/me is asked without a member: with another's it is refused to everybody else.
    member = {} if path == "/v1/me" else {"X-Weft-Agent": str(named["member"])}
    asked = {} if body is None else {"json": _filled(body, named)}
    with client.http.stream(method, path.format(**named), headers=member, **asked) as answer:
        return answer.status_code


def _tool(client: Client, tool: str, given: Mapping[str, object], named: Any) -> str:
    """What a tool says; empty if it did what was asked."""
    request = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": tool, "arguments": _filled(given, named)},
    }
    headers = {"Accept": "application/json, text/event-stream"}
    answer = client.http.post("/mcp", json=request, headers=headers)
    if answer.status_code == 401:
        return "needs a token"
    result = answer.json()["result"]
    return json.dumps(result["content"]) if result.get("isError") else ""


def _documented(server: Server) -> set[str]:
    paths = server.client().get("/openapi.json")["paths"]
    return {f"{method.upper()} {path}" for path, methods in paths.items() for method in methods}


def _anonymous(operation: str) -> str:
    """An operation of the table, as the document spells its path."""
    names = ("task", "sent", "member", "spare", "run", "token")
    for name in names:
        operation = operation.replace(f"{{{name}}}", "{id}")
    return operation


def test_every_operation_of_every_face_has_a_rule(rights: RightsServer) -> None:
    assert {_anonymous(one) for one in HTTP} == _documented(rights.server)
    assert set(MCP) == set(TOOLS)


def test_every_route_is_documented_or_has_a_rule(rights: RightsServer) -> None:
    found = get_local_project(rights.server.root, {"WEFT_STORE": rights.server.store_url})
    with open_store(rights.server.store_url) as store:
        app = create_app(found, store, hosts=("127.0.0.1",), mounted={})
        documented = set(app.openapi()["paths"])
        routes = {str(vars(route)["path"]) for route in app.routes if "path" in vars(route)}
    assert routes - documented <= {
        "/openapi.json",
        "/git/{rest:path}",
        "/v1/changes",
        "/v1/verbs",
        "/v1/verbs/{name}",
        "/v1/operations/{name}",
        "/v1/limits/{resource:path}",
    }


@pytest.mark.parametrize("operation", HTTP)
def test_an_operation_over_http_is_allowed_or_refused_as_its_rule_says(
    rights: RightsServer, operation: str
) -> None:
    allowed, body = HTTP[operation]
    found = {
        kind
        for kind, client in rights.clients.items()
        if _status(client, operation, body, rights.named) not in (401, 403)
    }
    assert found == allowed


@pytest.mark.parametrize("operation", [one for one in HTTP if "{" in one])
def test_no_token_of_a_tenant_succeeds_with_what_is_anothers(
    rights: RightsServer, operation: str
) -> None:
    body = HTTP[operation][1]
    for kind in ("tenant read", "tenant work", "attempt", "lead"):
        status = _status(rights.clients[kind], operation, body, rights.foreign)
        assert status in (403, 404, 409), kind


@pytest.mark.parametrize("tool", MCP)
def test_a_tool_is_allowed_or_refused_as_its_rule_says(rights: RightsServer, tool: str) -> None:
    allowed, given = MCP[tool]
    found = set()
    for kind, client in rights.clients.items():
        said = _tool(client, tool, given, rights.named)
        if not any(refusal in said for refusal in REFUSALS):
            found.add(kind)
    assert found == allowed


@pytest.mark.parametrize("operation", UNDOCUMENTED)
def test_what_is_in_no_document_is_about_all_tenants(rights: RightsServer, operation: str) -> None:
    found = {
        kind
        for kind, client in rights.clients.items()
        if _status(client, operation, None, rights.named) not in (401, 403)
    }
    assert found == UNDOCUMENTED[operation]


@pytest.mark.parametrize("kind", TOKENS)
def test_a_verb_by_name_is_for_admins_and_one_that_looks_for_readers_of_all(
    rights: RightsServer, kind: str
) -> None:
    client = rights.clients[kind]
    call = {"args": [], "kwargs": {"no_such_argument": 1}}  # so that nothing is carried out
    wrong = []
    for face, offered in (("verbs", all_verbs()), ("operations", operations())):
        for name, verb in offered.items():
            if not verb.function.__module__.startswith("weft."):
                continue  # a verb of another test's own
            secret = name.startswith(("tokens.", "replies.", "page_codes."))
            looks = verb.kind == "read" and not secret
            status = client.http.post(f"/v1/{face}/{name}", json=call).status_code
            if (status not in (401, 403)) != (kind in (ABOUT_ALL if looks else ADMINS)):
                wrong.append((name, status))
    assert wrong == []


@pytest.mark.parametrize("kind", TOKENS)
def test_verbs_called_together_only_read_and_tell_no_secret(
    rights: RightsServer, kind: str
) -> None:
    client = rights.clients[kind]
    call = {"args": [], "kwargs": {"no_such_argument": 1}}
    offered = [n for n, v in all_verbs().items() if v.function.__module__.startswith("weft.")]
    refused = set()
    for name in offered:
        answer = client.http.post("/v1/verbs", json={"calls": [[name, call]]})
        assert (answer.status_code in (401, 403)) == (kind not in ABOUT_ALL), answer.text
        if "is no verb that only reads" in answer.text:
            refused.add(name)
    secret = {n for n in offered if n.startswith(("tokens.", "replies.", "page_codes."))}
    writing = {name for name in offered if all_verbs()[name].kind == "write"}
    assert refused == (secret | writing if kind in ABOUT_ALL else set())


def test_the_number_of_verbs_called_together_is_bounded(rights: RightsServer) -> None:
    call = ["event_log.last_event", {"args": [], "kwargs": {}}]
    client = rights.clients["read"]
    answers = [client.http.post("/v1/verbs", json={"calls": [call] * n}) for n in (32, 33)]
    assert [answer.status_code for answer in answers] == [200, 422]
    assert len(answers[0].json()["result"]) == 32
