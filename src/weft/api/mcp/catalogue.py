"""The list of tools: those of agents and members, and one for each operation of the registry.

The name and description of a tool are those of its function, and so are its types.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, get_args, get_type_hints

from msgspec import Struct
from pydantic import ValidationError
from pydantic.json_schema import GenerateJsonSchema

from weft.api.fields import SentFields
from weft.api.mcp import tools
from weft.api.mcp.tools import Call
from weft.operations.identity import OWN, Identity, has, is_bound
from weft.operations.operation_list import OPERATIONS
from weft.operations.registry import Operation
from weft.store import Store

_PROBLEMS: Final = 3  # wrong arguments that a refusal names


@dataclass(frozen=True, kw_only=True)
class Tool:
    name: str
    title: str
    description: str
    schema: Callable[[], dict[str, Any]]  # of its arguments
    parse: Callable[[Mapping[str, Any]], Any]  # raises a `ValueError` with the reason
    gives: type[Any]
    run: Callable[[Call, Any], Awaitable[tuple[str, Any]]]  # a sentence, and `gives`
    looks_only: bool = False  # does not change the store
    right: str | None = None  # the scope that a caller needs; None: the tool decides


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
        schema=partial(takes.model_json_schema, schema_generator=_Schema),
        parse=partial(_validate, takes),
        gives=gives,
        run=run,
        looks_only=looks_only,
    )


def _validate(takes: type[SentFields], arguments: Mapping[str, Any]) -> SentFields:
    try:
        return takes.model_validate(arguments)
    except ValidationError as error:
        raise ValueError(_explain(error)) from error


def _explain(error: ValidationError) -> str:
    """Describe wrong arguments, without repeating them."""
    problems = error.errors(include_url=False, include_context=False, include_input=False)
    shown = [
        f"{'.'.join(map(str, problem['loc'])) or 'arguments'}: {problem['msg']}"
        for problem in problems[:_PROBLEMS]
    ]
    more = f" (and {len(problems) - _PROBLEMS} more)" if len(problems) > _PROBLEMS else ""
    return f"{'; '.join(shown)}{more}"


class _Schema(GenerateJsonSchema):
    """Schemas without a title per field, which repeats its name: models read all of it."""

    def field_title_should_be_set(self, _schema: object) -> bool:
        return False


def _derive(operation: Operation) -> Tool:
    """Make the tool of an operation."""

    async def run(call: Call, asked: Struct) -> tuple[str, Any]:
        def perform(store: Store, who: Identity) -> Any:
            return operation.perform(call.project, store, who, asked, now=time.time())

        done = await call.ask(perform)
        return operation.says(done), done

    return Tool(
        name=operation.name,
        title=operation.title,
        description=operation.description,
        schema=operation.schema,
        parse=operation.parse,  # a `msgspec.ValidationError` is a `ValueError`
        gives=operation.gives,
        run=run,
        looks_only=operation.looks_only,
        right=None if operation.right == OWN else operation.right,
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
        _tool("Report more work", tools.report_work),
        _tool("Hand your task over", tools.hand_over),
        _tool("Ask a person", tools.ask),
        _tool("Wait for a time or an event", tools.sleep),
        *(_derive(operation) for operation in OPERATIONS.values() if operation.is_tool),
    )
}


def list_tools(who: Identity) -> list[str]:
    """List the tools that a caller may use; those for which it lacks the scope are left out."""
    return [
        tool.name
        for tool in TOOLS.values()
        if tool.right is None or (has(who, tool.right) and not is_bound(who))
    ]
