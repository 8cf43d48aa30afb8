"""The list of tools. A tool's name and description are its function's."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from weft.api.mcp import arguments, tool_results, tools
from weft.api.mcp.arguments import Arguments
from weft.api.mcp.caller import Call

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
        _tool(tools.join_swarm, arguments.JoinSwarm, tool_results.MemberResult, "Join the swarm"),
        _tool(
            tools.my_agent_info,
            arguments.MyAgentInfo,
            tool_results.MeResult,
            "Who am I",
            looks_only=True,
        ),
        _tool(
            tools.get_swarm, arguments.GetSwarm, tool_results.Swarm, "Who is there", looks_only=True
        ),
        _tool(tools.send_task, arguments.SendTask, tool_results.SentResult, "Send a task"),
        _tool(
            tools.get_tasks,
            arguments.GetTasks,
            tool_results.PageResult,
            "List tasks",
            looks_only=True,
        ),
        _tool(
            tools.get_task,
            arguments.GetTask,
            tool_results.TaskResultShape,
            "Show a task",
            looks_only=True,
        ),
        _tool(
            tools.task_action, arguments.TaskAction, tool_results.Acted, "Claim or give back a task"
        ),
        _tool(
            tools.poll_task, arguments.PollTask, tool_results.PolledResult, "Wait for work or news"
        ),
        _tool(
            tools.store_progress,
            arguments.StoreProgress,
            tool_results.Stored,
            "Tell progress or end",
        ),
        _tool(
            tools.claim_files, arguments.ClaimFiles, tool_results.ClaimedFiles, "Ask for more files"
        ),
        _tool(
            tools.why,
            arguments.WhyArguments,
            tool_results.Reasons,
            "Why a task waits",
            looks_only=True,
        ),
        _tool(tools.submit_plan, arguments.SubmitPlan, tool_results.RunResult, "Submit a plan"),
    )
}
