"""The table of rights: for each token, face and operation, whether it is allowed or refused.

The operations come from the OpenAPI document, the verbs of the store and the tools for agents, so
that a new one without a row fails here. A call is refused if the answer is 401 or 403, or over MCP
a sentence that says so; any other answer, such as 404 for a member that is not there, is allowed.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from msgspec.json import encode

from api_http.server_process import PATIENT, Client, Server, serving
from weft.api.http.app import create_app
from weft.api.http.routes.verb_routes import operations
from weft.api.mcp.catalogue import TOOLS, list_tools
from weft.errors import Forbidden, Unauthenticated, WeftError
from weft.operations.identity import LOCAL, Identity, from_token
from weft.operations.operation_list import OPERATIONS
from weft.operations.registry import ask
from weft.project.project import get_local_project, get_project
from weft.store import open_store
from weft.store.remote_calls import all_verbs
from weft.store.tokens import create_token, identify

TOKENS = ("none", "read", "work", "admin", "owner", "attempt", "lead")
"""`owner` owns the member and sent the tasks that the calls are about."""

EVERYBODY = frozenset(TOKENS)
KNOWN = EVERYBODY - {"none"}
READERS = KNOWN - {"attempt"}
WORKERS = READERS - {"read"}
JOINERS = WORKERS - {"lead"}
OWNERS = frozenset({"admin", "owner"})
HOLDERS = OWNERS | {"attempt", "lead"}
OWN_AGENTS = frozenset({"attempt", "lead"})
ADMINS = frozenset({"admin"})

PLAN = "no plan at all"
HTTP: Mapping[str, tuple[frozenset[str], object]] = {
    "GET /healthz": (EVERYBODY, None),
    "GET /readyz": (EVERYBODY, None),
    "GET /metrics": (READERS, None),
    "POST /v1/tasks": (WORKERS, {"text": "x"}),
    "GET /v1/tasks": (READERS, None),
    "GET /v1/tasks/{task}": (KNOWN, None),
    "POST /v1/poll": (WORKERS, {"wait_ms": 0}),
    "GET /v1/events": (KNOWN, None),
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
    "report_work": (HOLDERS, {"work": "x", "fence": "{fence}"}),
    "hand_over": (OWN_AGENTS, {"agent": "nobody"}),
    "ask": (OWN_AGENTS, {"question": "x"}),
    "sleep": (OWN_AGENTS, {"until": "1h"}),
}
NO_TASK: Mapping[str, object] = {"task": "no-such-run/1"}
IN_REVIEW: Mapping[str, object] = {"candidate": "{candidate}"}
OPERATION_RULES: Mapping[str, tuple[frozenset[str], Mapping[str, object]]] = {
    "approve": (ADMINS, NO_TASK),
    "reject": (ADMINS, {**NO_TASK, "text": "x"}),
    "skip": (ADMINS, NO_TASK),
    "answer": (ADMINS, {**NO_TASK, "text": "x"}),
    "choose": (ADMINS, {**NO_TASK, "entrant": 1}),
    "retry": (ADMINS, NO_TASK),
    "pause": (ADMINS, {"name": "{run}"}),
    "resume": (ADMINS, {"name": "{run}"}),
    "cancel": (OWNERS, {"name": "{sent}"}),
    "resume_agent": (ADMINS, {"agent": "nobody"}),
    "set_limit": (ADMINS, {"resource": "llm", "capacity": 12}),
    "drain": (ADMINS, {"undo": True}),
    "message": (WORKERS, {"task": "{task}", "text": "x"}),
    "land": (ADMINS, {"run": "{run}"}),
    "comment": (ADMINS, {**IN_REVIEW, "text": "x"}),
    "remove_comment": (ADMINS, {**IN_REVIEW, "comment": 1}),
    "send_round": (ADMINS, IN_REVIEW),
    "accept_candidate": (ADMINS, IN_REVIEW),
    "answer_comment": (
        HOLDERS,
        {"comment": 1, "answer": "handled", "reason": "x", "fence": "{fence}"},
    ),
    "submit_plan": (ADMINS, {"plan": PLAN}),
    "claim": (WORKERS, {"id": "{task}"}),
    "accept": (WORKERS, {"id": "{task}"}),
    "decline": (WORKERS, {"id": "{task}"}),
    "release": (OWNERS, {"id": "{sent}", "fence": "{fence}"}),
    "progress": (HOLDERS, {"id": "{task}", "fence": "{fence}", "text": "x"}),
    "finish": (OWNERS, {"id": "{sent}", "fence": "{fence}", "status": "completed"}),
    "claim_task_files": (HOLDERS, {"id": "{task}", "fence": "{fence}", "files": ["a"]}),
    "write_to_task": (WORKERS, {"id": "{task}", "text": "x"}),
    "read_task_messages": (OWN_AGENTS, {"id": "{task}"}),
    "join": (JOINERS, {"name": "x"}),
    "list_members": (READERS, {}),
    "get_member": (READERS, {"id": "{member}"}),
    "ping": (OWNERS, {"id": "{member}"}),
    "close_member": (OWNERS, {"id": "{spare}"}),
    "me": (KNOWN, {}),
    "read_messages": (WORKERS, {}),
    "write_to_member": (WORKERS, {"id": "{member}", "text": "x"}),
    "get_runs": (READERS, {}),
    "get_run_state": (READERS, {"id": "{run}"}),
    "limits": (READERS, {}),
    "queue": (READERS, {"most": 3}),
    "cost": (READERS, {}),
    "get_reviews": (READERS, {}),
    "get_review": (KNOWN, {"task": "{task}"}),
    "why": (KNOWN, {"task": "{task}"}),
    "logs": (KNOWN, {"task": "{task}", "most": 5}),
    "diff": (KNOWN, {"task": "{task}"}),
    "create_token": (ADMINS, {"name": "x", "scopes": ["read"]}),
    "list_tokens": (ADMINS, {}),
    "revoke_token": (ADMINS, {"id": "{token}"}),
    # Open to tokens of hosts alone: `test_git_endpoint`.
    "join_as_host": (frozenset(), {"name": "x"}),
    "renew_own_token": (frozenset(), {}),
    "confirm_own_token": (frozenset(), {}),
}
"""The operations of the registry, which have the same rule on every face."""

UNDOCUMENTED: Mapping[str, frozenset[str]] = {
    "GET /v1/verbs": READERS,
    "POST /v1/verbs": READERS,
    "GET /v1/changes?after=0&seconds=0": READERS,
}
REFUSALS = (
    "Only an agent that weft started",
    "needs a token",
    "token is for one",
    "weft started you",
    "Only an admin",
    "joined with another token",
    "sent by another identity",
)


@dataclass
class RightsServer:
    """A server, a client for each token, and the things that calls are about."""

    server: Server
    clients: dict[str, Client]
    named: dict[str, str | int]


@pytest.fixture(scope="module")
def rights(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RightsServer]:
    directory: Path = tmp_path_factory.mktemp("rights")
    # Its member never says a word, and holds its task all the same until the last call.
    settings = f"{PATIENT}lease = 3600\ngone_after = 7200\n"
    with serving(directory, f"sqlite:///{directory / 'weft.db'}", settings=settings) as server:
        own = server.client(server.make_token())
        named = _fill(own)
        fence = named["fence"]
        assert isinstance(fence, int)
        texts = {
            "none": "",
            "read": _make(server, "read"),
            "work": _make(server, "read", "work"),
            "admin": server.token,
            "owner": own.token,
            "attempt": _make(server, "read", fence=fence),
            "lead": _make(server, "read", "work", fence=fence),
        }
        clients = {kind: server.client(text) for kind, text in texts.items()}
        yield RightsServer(server, clients, named)


def _make(server: Server, *scopes: str, fence: int | None = None) -> str:
    with server.open_store() as store:
        made = create_token(store, name="t", scopes=scopes, fence=fence, now=time.time())
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
    member = {"X-Weft-Agent": str(named["member"])}
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
    """A method and a path, whatever its parts are called."""
    return re.sub(r"{\w+}", "{}", operation)


def test_every_operation_of_every_face_has_a_rule(rights: RightsServer) -> None:
    routes = {f"{one.method} /v1{one.path}" for one in OPERATIONS.values()}
    offered = {_anonymous(one) for one in {*HTTP, *routes}}
    assert offered == {_anonymous(one) for one in _documented(rights.server)}
    assert {*MCP, *(one.name for one in OPERATIONS.values() if one.is_tool)} == set(TOOLS)
    assert set(OPERATION_RULES) == set(OPERATIONS)


@pytest.mark.parametrize("name", OPERATION_RULES)
def test_an_operation_has_the_same_right_on_every_face(rights: RightsServer, name: str) -> None:
    """42: over HTTP, as a tool, and where the store is."""
    allowed, given = OPERATION_RULES[name]
    project = get_local_project(rights.server.root, {"WEFT_STORE": rights.server.store_url})

    operation = OPERATIONS[name]

    def over_http(client: Client) -> bool:
        fields = _filled(given, rights.named)
        path = f"/v1{operation.path}".format(**fields)
        rest = {key: value for key, value in fields.items() if f"{{{key}}}" not in operation.path}
        asks = operation.method == "GET"
        # `me` is asked without a member: with another's it is refused to everybody else.
        member = {} if name == "me" else {"X-Weft-Agent": str(rights.named["member"])}
        answer = client.http.request(
            operation.method,
            path,
            params=rest if asks else None,
            json=None if asks else rest,
            headers=member,
        )
        assert "malformed" not in answer.text, answer.text
        return answer.status_code not in (401, 403)

    def as_tool(client: Client) -> bool:
        said = _tool(client, name, given, rights.named)
        return not any(refusal in said for refusal in REFUSALS)

    def beside_the_store(client: Client) -> bool:
        with rights.server.open_store() as store:
            try:
                who = from_token(identify(store, client.token, now=time.time()))
                asked = operation.parse(_filled(given, rights.named))
                operation.perform(project, store, who, asked, now=time.time())
            except (Forbidden, Unauthenticated):
                return False
            except WeftError:
                return True  # it was allowed, and there is no such thing
            return True

    faces = (over_http, as_tool, beside_the_store) if operation.is_tool else (over_http,)
    for face in faces:
        permitted = {kind for kind, client in rights.clients.items() if face(client)}
        assert permitted == allowed, face.__name__


def test_a_tool_is_listed_for_the_callers_that_may_use_it() -> None:
    admin = list_tools(LOCAL)
    worker = list_tools(Identity("t", "t", frozenset({"work"})))
    agent = list_tools(Identity("t", "t", frozenset({"read"}), fence=1, task=1))
    assert admin == list(TOOLS)
    tools = [one for one in OPERATIONS.values() if one.is_tool]
    assert set(worker) == {*MCP, *(one.name for one in tools if one.right != "admin")}
    assert set(agent) == {*MCP, *(one.name for one in tools if one.right == "own")}


def test_an_operation_gives_the_same_answer_on_every_face(rights: RightsServer) -> None:
    """42: what it says, and what it changed."""
    admin = rights.clients["admin"]
    project = get_local_project(rights.server.root, {"WEFT_STORE": rights.server.store_url})
    there = get_project(
        rights.server.root,
        {"WEFT_SERVER": rights.server.url, "WEFT_TOKEN": admin.token},
    )
    said = []
    for place in (project, there):
        with place.open_store() as store:
            for undo in (False, True, True):
                asked = OPERATIONS["drain"].parse({"undo": undo})
                said.append(json.loads(encode(ask(place, store, "drain", asked))))
    over_http = [admin.post("/v1/drain", {"undo": undo}) for undo in (False, True, True)]
    assert said[:3] == said[3:] == over_http


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
def test_what_is_in_no_document_is_for_readers(rights: RightsServer, operation: str) -> None:
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
            if (status not in (401, 403)) != (kind in (READERS if looks else ADMINS)):
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
        assert (answer.status_code in (401, 403)) == (kind not in READERS), answer.text
        if "is no verb that only reads" in answer.text:
            refused.add(name)
    secret = {n for n in offered if n.startswith(("tokens.", "replies.", "page_codes."))}
    writing = {name for name in offered if all_verbs()[name].kind == "write"}
    assert refused == (secret | writing if kind in READERS else set())


def test_the_number_of_verbs_called_together_is_bounded(rights: RightsServer) -> None:
    call = ["event_log.last_event", {"args": [], "kwargs": {}}]
    client = rights.clients["read"]
    answers = [client.http.post("/v1/verbs", json={"calls": [call] * n}) for n in (32, 33)]
    assert [answer.status_code for answer in answers] == [200, 422]
    assert len(answers[0].json()["result"]) == 32
