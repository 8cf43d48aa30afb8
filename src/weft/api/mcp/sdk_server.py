"""The SDK's server, with the list of tools and the call of a tool.

Every answer is a sentence and fields; every refusal is a sentence. Defects are logged here, and the
client learns only that there was a defect.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import cache, partial
from typing import Any, Final

import mcp_types as types
import msgspec
from anyio.to_thread import run_sync
from mcp.server import Server, ServerRequestContext

from weft import __version__
from weft.api.mcp.catalogue import TOOLS, Tool, list_tools
from weft.api.mcp.tool_results import FACE
from weft.api.mcp.tools import Call
from weft.errors import WeftError
from weft.store.attempt_reports import note_call
from weft.store.remote_calls import plainly

log = logging.getLogger(__name__)

NAME: Final = "weft"
CALLER: Final = "weft.caller"
"""The key of the caller in the scope of an HTTP request."""

_INSTRUCTIONS: Final = (
    "weft runs many coding agents on one repository. An agent that weft started works on one task "
    "and needs no join_swarm: get_task says what it is, store_progress tells how far it is, "
    "poll_task brings messages, claim_files asks for more files. Everybody else joins first, "
    "polls for tasks, and ends each with store_progress."
)
_LONGEST_CALL: Final = 32_000  # characters of arguments in the log
_LONGEST_ANSWER: Final = 4_000  # and of an answer


Caller = Callable[[], Call]
"""Returns the present caller; raises `Unauthenticated`. Blocks."""


def make_server(caller: Caller | None) -> Server[Caller | None]:
    """`caller` is for standard input; over HTTP every request brings its own."""
    return Server(
        NAME,
        version=__version__,
        title="weft",
        instructions=_INSTRUCTIONS,
        lifespan=partial(_lifespan, caller),
        get_tool_input_schema=_input_schema,
        on_list_tools=_list_tools,
        on_call_tool=_call_tool,
    )


@asynccontextmanager
async def _lifespan(
    caller: Caller | None, _server: Server[Caller | None]
) -> AsyncIterator[Caller | None]:
    yield caller


def _input_schema(name: str) -> Mapping[str, Any] | None:
    return None if name not in TOOLS else _described(name).input_schema


async def _list_tools(
    context: ServerRequestContext[Caller | None], _params: types.PaginatedRequestParams | None
) -> types.ListToolsResult:
    call = await _caller(context)
    return types.ListToolsResult(tools=[_described(name) for name in list_tools(call.who)])


@cache
def _described(name: str) -> types.Tool:
    tool = TOOLS[name]
    return types.Tool(
        name=name,
        title=tool.title,
        description=tool.description,
        input_schema=tool.schema(),
        output_schema=_output_schema(tool.gives),
        annotations=types.ToolAnnotations(
            read_only_hint=tool.looks_only, destructive_hint=False, open_world_hint=False
        ),
    )


def _output_schema(kind: Any) -> dict[str, Any]:
    """The schema of an answer; at its root, where the protocol wants an object, not a reference."""
    [root], parts = msgspec.json.schema_components(
        [FACE.describe(kind)], ref_template="#/$defs/{name}"
    )
    return {**parts.pop(root["$ref"].rpartition("/")[2]), "$defs": parts}


async def _call_tool(
    context: ServerRequestContext[Caller | None], params: types.CallToolRequestParams
) -> types.CallToolResult:
    tool = TOOLS.get(params.name)
    if tool is None:
        return _refusal(f"There is no tool {params.name!r}; there are {', '.join(TOOLS)}.")
    try:
        given = tool.parse(params.arguments or {})
    except ValueError as error:
        return _refusal(f"{tool.name} cannot be called like this: {error}.")
    call = await _caller(context)
    try:
        return await _run_tool(tool, call, given, params.arguments or {})
    except Exception:
        log.exception("the tool %s broke", params.name)
        return _refusal("weft itself broke while it did this; its log says more.")


async def _run_tool(
    tool: Tool, call: Call, given: object, arguments: Mapping[str, Any]
) -> types.CallToolResult:
    try:
        sentence, answer = await tool.run(call, given)
    except WeftError as error:
        await _note_call(call, tool, arguments, str(error), refused=True)
        return _refusal(str(error))
    await _note_call(call, tool, arguments, sentence, refused=False)
    fields = msgspec.to_builtins(FACE.show(answer), enc_hook=plainly)
    return types.CallToolResult(
        content=[
            types.TextContent(type="text", text=sentence),
            types.TextContent(type="text", text=json.dumps(fields, ensure_ascii=False)),
        ],
        structured_content=fields,
    )


async def _note_call(
    call: Call, tool: Tool, arguments: Mapping[str, Any], answer: str, *, refused: bool
) -> None:
    """Log the call of an agent that weft started, for recordings; polls are not logged."""
    fence = call.who.fence
    if fence is None or tool.name == "poll_task":
        return
    given = dict(arguments) if len(json.dumps(arguments)) <= _LONGEST_CALL else {}
    note = partial(
        note_call,
        call.store,
        fence,
        tool.name,
        given,
        answer[:_LONGEST_ANSWER],
        refused=refused,
        now=time.time(),
    )
    with suppress(WeftError):  # the attempt has ended meanwhile
        await call.threads.run(call.who.token, note)


async def _caller(context: ServerRequestContext[Caller | None]) -> Call:
    if context.request is not None:
        call: Call = context.request.scope[CALLER]
        return call
    assert context.lifespan_context is not None
    return await run_sync(context.lifespan_context)


def _refusal(sentence: str) -> types.CallToolResult:
    content = types.TextContent(type="text", text=" ".join(sentence.split()))
    return types.CallToolResult(content=[content], is_error=True)
