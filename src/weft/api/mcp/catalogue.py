"""The list of tools. A tool's name and description are its function's, and so are its types."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, get_args, get_type_hints

from weft.api.fields import SentFields
from weft.api.mcp import tools
from weft.api.mcp.caller import Call


@dataclass(frozen=True, kw_only=True)
class Tool:
    name: str
    title: str
    description: str
    takes: type[SentFields]
    gives: type[Any]
    run: Callable[[Call, Any], Awaitable[tuple[str, Any]]]  # a sentence, and `gives`
    looks_only: bool  # does not change the store


def _tool(
    title: str, run: Callable[[Call, Any], Awaitable[tuple[str, Any]]], *, looks_only: bool = False
) -> Tool:
    hints = get_type_hints(run)
    [_, takes] = [hint for name, hint in hints.items() if name != "return"]
    [_, gives] = get_args(hints["return"])
    return Tool(
        name=getattr(run, "__name__", ""),
        title=title,
        description=" ".join((inspect.getdoc(run) or "").split()),
        takes=takes,
        gives=gives,
        run=run,
        looks_only=looks_only,
    )


TOOLS: Final = {
    tool.name: tool
    for tool in (
        _tool("Join the swarm", tools.join_swarm),
        _tool("Who am I", tools.my_agent_info, looks_only=True),
        _tool("Who is there", tools.get_swarm, looks_only=True),
        _tool("Send a task", tools.send_task),
        _tool("List tasks", tools.get_tasks, looks_only=True),
        _tool("Show a task", tools.get_task, looks_only=True),
        _tool("Claim or give back a task", tools.task_action),
        _tool("Wait for work or news", tools.poll_task),
        _tool("Tell progress or end", tools.store_progress),
        _tool("Ask for more files", tools.claim_files),
        _tool("Why a task waits", tools.why, looks_only=True),
        _tool("List work in review", tools.get_reviews, looks_only=True),
        _tool("Show work in review", tools.get_review, looks_only=True),
        _tool("Comment or decide on work", tools.review_action),
        _tool("Answer a comment", tools.answer_comment),
        _tool("Hand your task over", tools.hand_over),
        _tool("Ask a person", tools.ask),
        _tool("Wait for a time or an event", tools.sleep),
        _tool("Submit a plan", tools.submit_plan),
    )
}
