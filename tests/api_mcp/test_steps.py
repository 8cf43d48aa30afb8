"""Steps by tools: an agent hands its task over, asks a person or sleeps over MCP."""

from __future__ import annotations

import anyio
import pytest
from msgspec.structs import replace

from mcp_project import ServedProject, call, lines
from wait_until import PATIENCE, wait_until
from weft.agents.recording import digest_prompt
from weft.attempt.recordings import make_recording, save_recording
from weft.model import State
from weft.store.attempt_end import list_hops
from weft.store.event_log import history

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def add_agent(project: ServedProject, name: str, front: str, *script: str) -> None:
    text = f"---\nruns: scripted\ncommands: yes\n{front}---\n{lines(*script)}\n"
    (project.root / ".weft" / "agents" / f"{name}.md").write_text(text)


async def test_an_agent_hands_its_task_over_by_a_tool(project: ServedProject) -> None:
    given = {"agent": "next", "note": "your turn", "args": {"depth": 2}}
    add_agent(project, "first", "hands_to: [next]\n", "write a.txt x", call("hand_over", **given))
    add_agent(project, "next", "args: {depth: number}\n", "append a.txt {{ args.depth }}")
    task = project.submit(agent="first", files=("a.txt",), text="t")
    wait_until(lambda: project.state(task) is State.DONE)
    assert project.outcomes(task) == ["handed_over", "success"]
    [hop] = list_hops(project.store, task)
    assert (hop.giver, hop.agent, hop.note, hop.args) == (
        "first",
        "next",
        "your turn",
        {"depth": 2},
    )
    assert project.content(task, "a.txt") == "x\n2\n"


async def test_a_proposal_by_a_tool_is_refused_with_its_reason_and_can_be_mended(
    project: ServedProject,
) -> None:
    go = project.root.parent / "go"
    add_agent(project, "first", "hands_to: [next]\n", "write a.txt x", f"wait {go}")
    add_agent(project, "next", "args: {depth: number}\n", "say done")
    task = project.submit(agent="first", files=("a.txt",), text="t")
    token = project.token_of(task)
    with anyio.fail_after(PATIENCE):
        async with project.over_http(token) as tools:
            wrong = await tools.refused("hand_over", agent="next", args={"depth": "deep"})
            assert "is a number" in wrong
            assert "may not hand over" in await tools.refused("hand_over", agent="other")
            assert "no end of a sleep" in await tools.refused("sleep", until="later")
            last = await tools.refused("hand_over", agent="next")
            assert "End now: a person decides." in last
            done = await tools("hand_over", agent="next", args={"depth": 1})
            assert done == {"task": task, "step": "hand_over"}
    go.write_text("")
    wait_until(lambda: project.state(task) is State.DONE)
    assert project.outcomes(task) == ["handed_over", "success"]


async def test_an_agent_asks_by_a_tool(project: ServedProject) -> None:
    asked = call("ask", question="Which port?", options=["8080", "9090"])
    add_agent(project, "first", "", "write a.txt x", asked)
    task = project.submit(agent="first", files=("a.txt",), text="t")
    wait_until(lambda: project.state(task) is State.BLOCKED)
    assert project.task(task).reason == "Which port? (8080 or 9090)"


async def test_only_an_agent_that_weft_started_ends_with_a_step(project: ServedProject) -> None:
    token = project.give_token("read", "work", "admin")
    with anyio.fail_after(PATIENCE):
        async with project.over_http(token) as tools:
            assert "Only an agent" in await tools.refused("sleep", until="2h")


async def test_the_calls_of_an_agent_are_recorded_and_made_again(project: ServedProject) -> None:
    given = {"agent": "next", "note": "your turn"}
    refused = "attempt 9: " + call("hand_over", agent="stranger")
    script = ("write a.txt x", refused, call("hand_over", **given))
    add_agent(project, "first", "hands_to: [next]\n", *script)
    add_agent(project, "next", "", "append a.txt y")
    task = project.submit(agent="first", files=("a.txt",), text="t")
    wait_until(lambda: project.state(task) is State.DONE)
    first = project.attempts(task)[0]
    made = make_recording(
        project.root,
        project.directory(task),
        first,
        history(project.store, task),
        project.store.redactor,
    )
    [recorded] = made.calls
    assert (recorded.tool, recorded.arguments, recorded.refused) == ("hand_over", given, False)
    assert recorded.answer.startswith("Noted.")
    place = project.root.parent / "recordings"
    old, new = project.task(task).name, f"t{task + 1}"
    prompt = made.prompt.replace(old, new)
    digest = digest_prompt(prompt, None)
    save_recording(place, replace(made, task=new, prompt=prompt, digest=digest))
    file = project.root / ".weft" / "agents" / "first.md"
    played = f"runs: recorded\nfrom: {place}"
    file.write_text(file.read_text().replace("runs: scripted\ncommands: yes", played))
    again = project.submit(agent="first", files=("a.txt",), text="t")
    assert project.task(again).name == new
    wait_until(lambda: project.state(again) in (State.DONE, State.BLOCKED))
    assert project.task(again).reason == ""
    assert project.outcomes(again) == ["handed_over", "success"]
    assert project.content(again, "a.txt") == project.content(task, "a.txt")
