"""The MCP server of `weft mcp` for the store of this repository."""

from __future__ import annotations

import time
from typing import Final

import anyio

from weft.api.mcp.stdio_transport import serve_stdio
from weft.api.mcp.tools import Call
from weft.api.threads import Threads
from weft.operations.identity import LOCAL, Identity, from_token
from weft.operations.long_poll import Room
from weft.project.project import Project
from weft.project.server_address import TOKEN
from weft.store import Store
from weft.store.tokens import identify

_THREADS: Final = 8


def serve_project(project: Project) -> None:
    """Serve until standard input ends; refuse a token that is not valid at once."""
    token = project.environment.get(TOKEN)
    with project.open_store() as store:
        _identify(store, token)
        anyio.run(_serve, project, store, token)


def _identify(store: Store, token: str | None) -> Identity:
    return from_token(identify(store, token, now=time.time())) if token else LOCAL


async def _serve(project: Project, store: Store, token: str | None) -> None:
    room, leaving, threads = Room(store), anyio.Event(), Threads(_THREADS, each=_THREADS)

    def make_call() -> Call:
        return Call(
            store=store,
            room=room,
            project=project,
            who=_identify(store, token),
            leaving=leaving,
            threads=threads,
        )

    await serve_stdio(make_call, room)
