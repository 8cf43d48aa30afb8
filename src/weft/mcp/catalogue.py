"""The list of tools. A tool's name and description are its function's."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from weft.mcp import answers, arguments, tools
from weft.mcp.arguments import Arguments
from weft.mcp.call import Call

Given = TypeVar("Given", bound=Arguments)
Found = TypeVar("Found")


@dataclass(frozen=True, kw_only=True)
class Tool:
    name: str
    title: str
    description: str
    takes: type[Arguments]
    gives: type[Any]
    run: Callable[[Call, Any], Awaitable[tuple[str, Any]]]  # a sentence, and `gives`
    looks_only: bool  # changes nothing


def _tool(
    run: Callable[[Call, Given], Awaitable[tuple[str, Found]]],
    takes: type[Given],
    gives: type[Found],
    title: str,
    *,
    looks_only: bool = False,
) -> Tool:
    described = " ".join((inspect.getdoc(run) or "").split())
    return Tool(
        name=getattr(run, "__name__", ""),
        title=title,
        description=described,
        takes=takes,
        gives=gives,
        run=run,
        looks_only=looks_only,
    )


TOOLS: Final = {
    one.name: one
    for one in (
        _tool(tools.join_swarm, arguments.JoinSwarm, answers.Member, "Join the swarm"),
        _tool(tools.my_agent_info, arguments.MyAgentInfo, answers.Me, "Who am I", looks_only=True),
        _tool(tools.get_swarm, arguments.GetSwarm, answers.Swarm, "Who is there", looks_only=True),
        _tool(tools.send_task, arguments.SendTask, answers.Sent, "Send a task"),
        _tool(tools.get_tasks, arguments.GetTasks, answers.Page, "List tasks", looks_only=True),
        _tool(tools.get_task, arguments.GetTask, answers.Task, "Show a task", looks_only=True),
        _tool(tools.task_action, arguments.TaskAction, answers.Acted, "Claim or give back a task"),
        _tool(tools.poll_task, arguments.PollTask, answers.Polled, "Wait for work or news"),
        _tool(
            tools.store_progress, arguments.StoreProgress, answers.Stored, "Tell progress or end"
        ),
        _tool(tools.claim_files, arguments.ClaimFiles, answers.Files, "Ask for more files"),
        _tool(tools.why, arguments.Why, answers.Reasons, "Why a task waits", looks_only=True),
        _tool(tools.submit_plan, arguments.SubmitPlan, answers.Run, "Submit a plan"),
    )
}
