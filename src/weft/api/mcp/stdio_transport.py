"""The tools over standard input and output, for a single caller."""

from __future__ import annotations

import anyio
from mcp.server.stdio import stdio_server

from weft.api.mcp.sdk_server import Caller, make_server
from weft.operations.long_poll import Room


async def serve_stdio(caller: Caller, room: Room) -> None:
    """Serve until standard input ends; polls wait in this process."""
    server = make_server(caller)
    async with anyio.create_task_group() as group, stdio_server() as (incoming, outgoing):
        group.start_soon(room.run)
        await server.run(incoming, outgoing, server.create_initialization_options())
        group.cancel_scope.cancel()
