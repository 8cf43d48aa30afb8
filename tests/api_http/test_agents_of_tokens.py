"""The agents that a token may send work to, over a server that runs them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from api_http.server_process import Client, Server, serving
from databases import change
from repositories import commit_all
from wait_until import wait_until
from weft.maintenance.detection import detect
from weft.maintenance.project_files import init
from weft.store.tokens import create_token

CLOSED = "---\nruns: scripted\ncommands: yes\n---\n{{ task.text }}\n"
OPEN = "---\nruns: scripted\ncommands: yes\nopen: yes\n---\n{{ task.text }}\n"
LEAD = "---\nruns: scripted\ncommands: yes\nstage: lead\n---\n{{ task.text }}\n"
SETTLED = ("done", "failed", "blocked", "cancelled")


@pytest.fixture(scope="module")
def working(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that runs agents, in a repository as `weft init` leaves it, with three more."""
    directory: Path = tmp_path_factory.mktemp("working")
    agents = {"closed": CLOSED, "open": OPEN, "leading": LEAD}
    url = f"sqlite:///{directory / 'weft.db'}"
    with serving(directory, url, "--slots", "2", agents=agents) as server:
        init(server.root, detect(server.root, {}))
        commit_all(server.root, "agents")
        yield server


def worker(server: Server, *agents: str, tenant: str | None = None) -> Client:
    with server.open_store() as store:
        _, text = create_token(
            store,
            name="a worker",
            scopes=("read", "work"),
            tenant=tenant,
            agents=agents,
            now=time.time(),
        )
    return server.client(text)


def refusal(client: Client, path: str, body: object) -> str:
    answer = client.http.post(path, json=body)
    assert answer.status_code == 403, answer.text
    return str(answer.json()["detail"])


def ended(client: Client, task: int) -> str:
    wait_until(lambda: client.state(task) in SETTLED)
    return client.state(task)


@pytest.mark.parametrize("line", ["until touch {mark}", "write {mark} x", "append ../../mark x"])
def test_a_work_token_runs_no_command_by_the_agent_that_init_writes(
    working: Server, tmp_path: Path, line: str
) -> None:
    mark = tmp_path / "mark"
    client = worker(working)
    task = client.send(f"script: {line.format(mark=mark)}", agent="try", files=["x"])
    assert ended(client, task) == "blocked"
    assert not mark.exists()
    assert "`commands: yes`" in client.get(f"/v1/tasks/{task}")["reason"]
    assert ended(client, client.send("Hello", agent="try", files=["hello.txt"])) == "done"


def test_a_token_sends_to_open_agents_unless_it_names_others(working: Server) -> None:
    usual, named, all_ = worker(working), worker(working, "closed"), worker(working, "*")
    admin = working.client()
    allowed = {
        (usual, "open"): True,
        (usual, "closed"): False,
        (usual, "leading"): False,
        (named, "open"): False,
        (named, "closed"): True,
        (all_, "open"): True,
        (all_, "closed"): True,
        (admin, "closed"): True,
    }
    for (client, agent), is_allowed in allowed.items():
        if is_allowed:
            client.send("script: answer Yes", agent=agent)
        else:
            said = refusal(client, "/v1/tasks", {"text": "x", "agent": agent})
            assert agent in said
            assert f"--agents {agent}" in said


def test_a_member_of_the_same_name_as_a_capability_needs_no_leave(working: Server) -> None:
    client = worker(working)
    member = client.join("cap", capabilities=["python"])
    task = client.send("x", agent="python")
    assert client.take(member)[0] == task


def test_writing_to_the_task_of_an_agent_is_sending_it_work(
    working: Server, tmp_path: Path
) -> None:
    admin, usual, named = working.client(), worker(working), worker(working, "closed")
    task = admin.send(f"script: wait {tmp_path}/go", agent="closed")
    said = refusal(usual, f"/v1/tasks/{task}/messages", {"text": "script: until true"})
    assert "closed" in said
    assert named.post(f"/v1/tasks/{task}/messages", {"text": "go on"})["message"]
    (tmp_path / "go").touch()


def test_attached_details_come_back_as_they_were_and_steer_nothing(working: Server) -> None:
    client = worker(working)
    attached = {"check": "false", "stages": [{"stage": "x"}], "depth": 99, "timeout": 0.001}
    task = client.send("script: answer Yes", agent="open", details=attached)
    assert client.get(f"/v1/tasks/{task}")["details"] == attached
    assert ended(client, task) == "done"


def test_a_plan_comes_from_an_admin(working: Server) -> None:
    plan = "- [ ] Task 1: x\n  <!-- files: a -->\n"
    client = worker(working, "*")
    assert "admin" in refusal(client, "/v1/runs", {"plan": plan, "agent": "open"})


def test_a_token_made_before_keeps_what_it_had_and_is_listed_so(working: Server) -> None:
    client = worker(working)
    id = client.get("/v1/me")["token"]["id"]
    change(working.store_url, f"UPDATE tokens SET agents = NULL WHERE id = '{id}'")
    client.send("script: answer Yes", agent="closed")
    [listed] = [
        one
        for one in working.client().get("/v1/tokens", params={"most": 200})["tokens"]
        if one["id"] == id
    ]
    assert listed["agents"] is None
