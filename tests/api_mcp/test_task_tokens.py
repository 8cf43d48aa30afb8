"""The token of one attempt: what it may do, when it ends, and that nobody else sees it."""

from __future__ import annotations

import json
import os
import stat
import sys
import time
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest

from attempt.attempt_project import SETTLED
from databases import look
from forked_python import run_forked
from mcp_project import ServedProject, call, lines
from wait_until import PATIENCE, wait_until
from weft.model import State
from weft.operations.dispatch import NewPlan, send, submit_text
from weft.operations.identity import LOCAL
from weft.operations.member_records import NewWork
from weft.operations.single_task import check, submit_task
from weft.project.own_repository import get_repository
from weft.store.tasks import cancel

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def submit_after(project: ServedProject, need: int, *script: str) -> int:
    """A task of weft's own that needs another."""
    work = NewWork(
        text=lines(*script),
        agent="scripted",
        needs=(need,),
        files=("a.txt",),
        repo=get_repository(project.root, project.store),
        stage="implement",
    )
    return send(project.store, LOCAL, work, now=time.time()).task


PLAN = "## Phase 1: One\n\n- [ ] Task 1: Write it\n  <!-- files: c.txt -->\n"
MAY: dict[str, tuple[str, dict[str, Any]]] = {
    "look at its own task": ("get_task", {}),
    "look at what it needs": ("get_task", {"task": "needed"}),
    "say who it is": ("my_agent_info", {}),
    "tell progress": ("store_progress", {"text": "half"}),
    "hear messages": ("poll_task", {"wait_ms": 0}),
    "ask for files": ("claim_files", {"files": ["d.txt"]}),
    "ask why": ("why", {}),
}
MAY_NOT: dict[str, tuple[str, dict[str, Any]]] = {
    "look at another task": ("get_task", {"task": "other"}),
    "ask why another waits": ("why", {"task": "other"}),
    "list tasks": ("get_tasks", {}),
    "list members": ("get_swarm", {}),
    "join": ("join_swarm", {"name": "me"}),
    "send a task": ("send_task", {"text": "x", "agent": "scripted"}),
    "submit a plan": ("submit_plan", {"plan": PLAN, "agent": "scripted"}),
    "claim a task": ("task_action", {"action": "claim", "task": "other"}),
    "give its task back": ("task_action", {"action": "release", "task": "own"}),
    "end its task": ("store_progress", {"status": "completed", "text": "done"}),
    "end another's task": (
        "store_progress",
        {"status": "completed", "text": "done", "fence": "foreign"},
    ),
    "tell another's progress": ("store_progress", {"text": "half", "fence": "foreign"}),
    "ask for another's files": ("claim_files", {"files": ["e.txt"], "fence": "foreign"}),
}


async def test_an_attempts_token_does_what_its_task_needs_and_nothing_else(
    project: ServedProject, tmp_path: Path
) -> None:
    needed = project.submit("answer There it is", files=())
    own = submit_after(project, needed, f"wait {tmp_path}/go")
    other = project.submit(f"wait {tmp_path}/go", files=())
    token = project.token_of(own)
    wait_until(lambda: project.state(other) is State.RUNNING)
    named = {
        "needed": needed,
        "own": own,
        "other": other,
        "foreign": project.attempts(other)[-1].fence,
    }
    with anyio.fail_after(PATIENCE):
        async with project.over_http(token) as tools:
            for what, (tool, given) in MAY.items():
                assert await tools(tool, **_filled(given, named)), what
            before = rows(project)
            for what, (tool, given) in MAY_NOT.items():
                assert await tools.refused(tool, **_filled(given, named)), what
            assert rows(project) == before  # and nothing came of it
            shown = await tools("get_task", task=needed)
            assert shown["result"] == "There it is"
            project.tell(own, "Mind the cache.")
            heard = await tools("poll_task")
            assert heard["messages"] == [{"sender": "local", "text": "Mind the cache."}]
            assert (await tools("store_progress", text="x"))["messages"] == heard["messages"]
            quiet = await tools("poll_task", wait_ms=0, ack=heard["ack"])
            assert quiet["messages"] == []
    (tmp_path / "go").touch()


async def test_a_leads_token_may_also_look_around_and_send_work(
    project: ServedProject, tmp_path: Path
) -> None:
    project.agent("closed")
    request = check(project.project(), lines(f"wait {tmp_path}/go"), files=[], agent="lead")
    own = submit_task(project.project(), project.store, request)
    other = project.submit(f"wait {tmp_path}/go", files=())
    with anyio.fail_after(PATIENCE):
        async with project.over_http(project.token_of(own)) as tools:
            for what in (
                "look at another task",
                "ask why another waits",
                "list tasks",
                "list members",
                "send a task",
            ):
                tool, given = MAY_NOT[what]
                assert await tools(tool, **_filled(given, {"other": other})), what
            for what in ("join", "claim a task", "give its task back", "end its task"):
                tool, given = MAY_NOT[what]
                assert await tools.refused(tool, **_filled(given, {"other": other, "own": own}))
            assert "admin" in await tools.refused("submit_plan", plan=PLAN, agent="scripted")
            closed = await tools.refused("send_task", text="x", agent="closed")
            assert "`sends_to: closed`" in closed
            [sent] = (await tools("get_tasks", mine=True))["tasks"]
            assert sent["agent"] == "scripted"
    (tmp_path / "go").touch()


def _filled(given: dict[str, Any], named: dict[str, int]) -> dict[str, Any]:
    return {
        key: named.get(value, value) if isinstance(value, str) else value
        for key, value in given.items()
    }


def rows(project: ServedProject) -> list[Any]:
    tables = ("tasks", "leases", "claims", "workers", "runs", "messages")
    return [look(project.url, f"SELECT COUNT(*) AS n FROM {table}") for table in tables] + [
        look(project.url, "SELECT id, state, files FROM tasks ORDER BY id")
    ]


async def test_it_is_refused_once_its_attempt_has_ended_or_was_cancelled(
    project: ServedProject, tmp_path: Path
) -> None:
    ended = project.submit(f"wait {tmp_path}/go", files=())
    cancelled = project.submit("hang", files=())
    tokens = [project.token_of(ended), project.token_of(cancelled)]
    assert [ask(project, one) for one in tokens] == [200, 200]
    (tmp_path / "go").touch()
    cancel(project.store, cancelled, now=time.time())
    wait_until(lambda: project.state(ended) is State.DONE)
    wait_until(lambda: f"{cancelled}.1" not in project.marked().values())
    wait_until(lambda: [ask(project, one) for one in tokens] == [401, 401])


async def test_who_shows_no_token_or_a_wrong_one_hears_nothing(project: ServedProject) -> None:
    good = project.give_token("read")
    assert ask(project, good) == 200
    wrong = good[:-1] + ("a" if good[-1] != "a" else "b")
    for shown in ("x", wrong, good.upper(), f"{good} {good}"):
        assert ask(project, shown) == 401
    async with httpx2.AsyncClient() as client:
        assert (await client.post(project.mcp, json={})).status_code == 401
        headers = {"Authorization": f"Bearer {good}"}
        assert (await client.get(project.mcp, headers=headers)).status_code == 405


def ask(project: ServedProject, token: str) -> int:
    """The status with which a call is answered."""
    request = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "my_agent_info", "arguments": {}},
    }
    headers = {
        "Authorization": f"Bearer {token}",
        "Accept": "application/json, text/event-stream",
    }
    return httpx2.post(project.mcp, json=request, headers=headers, timeout=PATIENCE).status_code


CHATTY = """# Chatty

## Phase 1: All of it

- [ ] Task 1: Tell all there is to tell
  <!-- files: seen.txt -->
  - script: until env > seen.txt
  - script: until cat $WEFT_MCP_TOKEN_FILE && echo
  - script: until cat $WEFT_MCP_TOKEN_FILE 1>&2
  - script: call store_progress {"text": "hello"}
"""


def test_the_token_of_an_attempt_is_in_one_file_and_nowhere_else(project: ServedProject) -> None:
    here = project.project()
    new = NewPlan(plan=CHATTY, name="chatty", agent="scripted")
    sent = submit_text(project.store, LOCAL, here, new)
    run, [chatty] = sent.submitted.run, sent.submitted.tasks.values()
    wait_until(
        lambda: project.state(chatty) in SETTLED and project.state(chatty) is not State.GATING
    )
    assert project.state(chatty) is State.DONE
    file = project.directory(chatty) / "mcp_token"
    secret = file.read_bytes().split(b"_", 2)[2]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    seen = project.content(chatty, "seen.txt")
    assert "WEFT_MCP_URL=" in seen
    assert "WEFT_TOKEN=" not in seen
    assert secret not in seen.encode()
    places = [project.directory(chatty), Path(project.url.removeprefix("sqlite:///")).parent]
    files = [path for place in places for path in place.rglob("*") if path.is_file()]
    files.append(project.root.parent / "server.log")
    printed = {project.directory(chatty) / name for name in ("stdout", "stderr")}  # by itself
    assert {path for path in files if secret in path.read_bytes()} - printed == {file}
    number = str(chatty)
    for command in (["logs", number], ["logs", number, "--raw"], ["logs", number, "--stderr"]):
        told = weft(project, *command)
        assert secret not in told
        assert b"weft_[hidden]" in told
    for command in (["why", number, "--json"], ["report", run, "--json"]):
        assert secret not in weft(project, *command)
    page = project.root.parent / "report.html"
    weft(project, "report", run, "--html", str(page))
    assert secret not in page.read_bytes()


def test_who_names_a_server_in_its_settings_gives_its_agents_the_tools(
    project: ServedProject,
) -> None:
    text = lines(call("my_agent_info"), "answer Yes")
    project.tune(f"[server]\nurl = '{project.mcp.removesuffix('/mcp')}/'\n")
    try:
        done = json.loads(weft(project, "do", text, "--agent=scripted", "--files=none", "--json"))
    finally:
        project.tune()
    assert (done["state"], done["result"]) == ("done", "Yes")


def weft(project: ServedProject, *arguments: str) -> bytes:
    environment = {
        **project.environment,
        "WEFT_STORE": project.url,
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    done = run_forked(
        [sys.executable, "-m", "weft", "-C", str(project.root), *arguments], env=environment
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.encode()
