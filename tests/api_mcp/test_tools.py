"""Every tool, driven by the SDK's own client over both transports."""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import anyio
import pytest

from mcp_project import ServedProject, Tools, names
from wait_until import PATIENCE
from weft import bounds
from weft.api.mcp.catalogue import TOOLS
from weft.store import open_store
from weft.store.summaries import get_budget

pytestmark = pytest.mark.anyio

Door = Callable[[ServedProject], AbstractAsyncContextManager[Tools]]

WORKER = ("read", "work")
ADMIN = ("admin",)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@asynccontextmanager
async def http(project: ServedProject) -> AsyncIterator[Tools]:
    async with project.over_http(project.give_token(*ADMIN)) as tools:
        yield tools


@asynccontextmanager
async def legacy(project: ServedProject) -> AsyncIterator[Tools]:
    """As clients speak that know no later version than 2025's."""
    async with project.over_http(project.give_token(*ADMIN), mode="legacy") as tools:
        yield tools


@asynccontextmanager
async def stdio(project: ServedProject) -> AsyncIterator[Tools]:
    async with project.over_stdio() as tools:
        yield tools


@asynccontextmanager
async def bridge(project: ServedProject) -> AsyncIterator[Tools]:
    token = project.give_token(*ADMIN)
    server = project.mcp.removesuffix("/mcp")
    async with project.over_stdio("--server", server, WEFT_TOKEN=token) as tools:
        yield tools


@pytest.mark.parametrize("door", [http, legacy, stdio, bridge])
async def test_a_member_and_who_sends_it_work_use_every_tool(
    project: ServedProject, door: Door
) -> None:
    with anyio.fail_after(PATIENCE):
        async with door(project) as tools:
            await everything(project, tools)


async def everything(project: ServedProject, tools: Tools) -> None:
    listed = await tools.client.list_tools()
    listing = {one.name for one in listed.tools}
    assert listing <= set(TOOLS)
    assert listing >= {"join_swarm", "send_task", "cancel"}
    assert all(
        one.description and one.input_schema["additionalProperties"] is False
        for one in listed.tools
    )

    can = secrets.token_hex(4)  # nobody else can do what is sent here
    me = await tools("join_swarm", name="ann", role="tester", capabilities=[can], max_tasks=2)
    assert (me["current"], me["max"], me["status"]) == (0, 2, "idle")
    again = await tools("join_swarm", name="ann", capabilities=[can], max_tasks=3)
    assert (again["id"], again["max"]) == (me["id"], 3)
    assert (await tools("my_agent_info"))["members"] == [again]
    assert again in (await tools("get_swarm"))["members"]

    first = await tools("send_task", text="Look around", agent=can, priority="high")
    later = await tools("send_task", text="And then?", agent=can, needs=[first["task"]])
    assert (first["state"], later["state"]) == ("ready", "waiting")
    reasons = await tools("why", task=later["task"])
    assert [one["kind"] for one in reasons["waits"]] == ["need"]

    polled = await tools("poll_task", wait_ms=20_000)
    assert (polled["kind"], polled["task"]["task"]) == ("task", first["task"])
    fence = polled["task"]["fence"]
    noted = await tools("store_progress", fence=fence, text="half of it")
    assert (noted["task"], noted["state"]) == (first["task"], "running")
    assert await tools("claim_files", fence=fence, files=["a.py"]) == {"granted": True, "held": {}}
    reported = await tools("report_work", fence=fence, work="Found race condition")
    assert reported == {"task": first["task"], "work": "Found race condition"}
    ended = await tools("store_progress", fence=fence, status="completed", text="All is well")
    assert ended["state"] == "done"
    shown = await tools("get_task", task=first["task"])
    assert (shown["state"], shown["result"], shown["files"]) == ("done", "All is well", ["a.py"])

    claimed = await tools("task_action", action="claim", task=later["task"])
    assert claimed["claimed"]["needs"][0]["result"] == "All is well"
    await tools("task_action", action="release", task=later["task"], reason="tired")
    assert (await tools("get_task", task=later["task"]))["state"] == "ready"

    offered = await tools("send_task", text="Yours?", agent=can, to=me["id"], how="offer")
    await tools("task_action", action="reject", task=offered["task"])
    offered = await tools("send_task", text="This one?", agent=can, to=me["id"], how="offer")
    taken = await tools("task_action", action="accept", task=offered["task"])
    await tools("store_progress", fence=taken["claimed"]["fence"], status="failed", text="No idea")

    page, found = await tools("get_tasks", agent=can, most=2), []
    while page["next"] is not None:
        found += page["tasks"]
        page = await tools("get_tasks", agent=can, most=2, after=page["next"])
    found += page["tasks"]
    assert len(found) == 4
    assert [one["task"] for one in found[:2]] == [first["task"], later["task"]]

    plan = "# Small\n\n## Phase 1: One\n\n- [ ] Task 1: Write it\n  <!-- files: a.txt -->\n"
    wishes = {"stages": ["implement"], "slots": 2, "budget_usd": 0.5}
    run = await tools("submit_plan", plan=plan, name="small", agent="scripted", **wishes)
    assert run["run"].startswith("small-")
    assert names((await tools("get_tasks", run=run["run"]))["tasks"]) == list(run["tasks"])
    with open_store(project.url) as store:
        assert get_budget(store, run["run"]).cap == 500_000


async def test_an_offer_that_cannot_start_is_for_others_and_who_accepted_is_told_why(
    project: ServedProject,
) -> None:
    with anyio.fail_after(PATIENCE):
        async with project.over_http(project.give_token(*WORKER, tenant="nine")) as tools:
            me = await tools("join_swarm", name="nina", max_tasks=2)
            first = await tools("send_task", text="This", files=["a.py"])
            await tools("task_action", action="claim", task=first["task"])
            offer = {"to": me["id"], "how": "offer", "files": ["a.py"]}
            offered = (await tools("send_task", text="That", **offer))["task"]
            said = await tools.refused("task_action", action="accept", task=offered)
            assert said == (
                f"Task {offered} cannot start now: waiting for a.py, which task {first['task']} is "
                "changing; it is in the pool again."
            )
            assert (await tools("get_task", task=offered))["state"] == "ready"


async def test_nobody_joins_under_the_name_of_an_agent_file(project: ServedProject) -> None:
    async with project.over_http(project.give_token(*WORKER, tenant="ten")) as tools:
        said = await tools.refused("join_swarm", name="scripted")
        assert said == "scripted is the name of an agent file here; join under another."


async def test_members_hear_how_what_they_sent_ended(project: ServedProject) -> None:
    with anyio.fail_after(PATIENCE):
        async with (
            project.over_http(project.give_token(*WORKER, tenant="two")) as boss,
            project.over_http(project.give_token(*WORKER, tenant="two")) as hand,
        ):
            await boss("join_swarm", name="boss", is_lead=True)
            await hand("join_swarm", name="hand", capabilities=["x"])
            sent = await boss("send_task", text="Do it", agent="x")
            [mine] = (await boss("get_tasks", mine=True))["tasks"]
            assert mine["task"] == sent["task"]
            assert (await hand("get_tasks", mine=True))["tasks"] == []
            task = (await hand("poll_task"))["task"]
            await hand("store_progress", fence=task["fence"], status="completed", text="Done so")
            told = await boss("poll_task")
            assert told["kind"] == "finished"
            assert told["finished"] == [
                {
                    "task": sent["task"],
                    "name": told["finished"][0]["name"],
                    "state": "done",
                    "text": "Done so",
                }
            ]
            assert (await boss("poll_task", wait_ms=0))["finished"] == told["finished"]
            assert (await boss("poll_task", wait_ms=0, ack=told["ack"]))["kind"] == "nothing"


async def test_wrong_arguments_are_one_sentence(project: ServedProject) -> None:
    async with http(project) as tools:
        assert "text: Field required" in await tools.refused("send_task")
        assert "how" in await tools.refused("send_task", text="x", how="by mail")
        assert "text" in await tools.refused("send_task", text="x" * (bounds.TEXT + 1))
        assert "secret" not in await tools.refused("get_task", task="secret")
        assert "Extra" in await tools.refused("get_swarm", verbose=True)
        assert "wait_ms" in await tools.refused("poll_task", wait_ms=60_001)
        assert "There is no tool 'fly'" in await tools.refused("fly")
        assert "Join the swarm first" in await tools.refused("poll_task")
        assert "no task 77" in (await tools.refused("get_task", task=77))
        assert "line" in await tools.refused(
            "submit_plan", plan="- [ ] Task 1: x\n  <!-- depends: task9 -->\n"
        )


async def test_who_goes_away_while_it_polls_is_given_nothing(project: ServedProject) -> None:
    token = project.give_token(*WORKER, tenant="gone")
    with anyio.fail_after(PATIENCE):
        async with project.over_http(token) as tools:
            await tools("join_swarm", name="ann")
        with anyio.move_on_after(1):
            async with project.over_http(token) as tools:
                await tools("poll_task", wait_ms=60_000)
        async with project.over_http(token) as tools:
            sent = await tools("send_task", text="Look")
            time.sleep(0.3)  # whoever still waited would have it by now
            assert (await tools("get_task", task=sent["task"]))["state"] == "ready"
            assert (await tools("poll_task"))["task"]["task"] == sent["task"]
