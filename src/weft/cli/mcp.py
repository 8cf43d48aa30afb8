"""`weft mcp`"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from weft.project.project import Project
    from weft.store import Store

_THREADS: Final = 8


@click.command(name="mcp")
@click.option("--server", metavar="URL", help="The same as `weft --server URL mcp`.")
@click.pass_obj
def command(directory: Path, server: str | None) -> None:
    """Serve weft's tools to an agent, over standard input and output (MCP).

    For programs that start MCP servers themselves: name `weft mcp` as the command. The tools act
    on this repository's store, as whoever has the token in WEFT_TOKEN, or as you. With --server
    everything is passed on to that server. Agents that weft starts are given its tools by
    themselves, where there is a `weft serve`.
    """
    from weft.project import project
    from weft.project.server_address import SERVER, TOKEN

    if server:
        os.environ[SERVER] = server
    elsewhere = project.find_elsewhere(directory, os.environ)
    if elsewhere is not None and elsewhere.server is not None:
        from weft.api.mcp.bridge import serve_bridge

        serve_bridge(elsewhere.server.url, elsewhere.server.token)
        return
    found = project.find_here(directory, os.environ)
    with found.open_store() as store:
        _serve(found, store, os.environ.get(TOKEN))


def _serve(found: Project, store: Store, token: str | None) -> None:
    import time

    import anyio

    from weft.api.mcp.caller import Call
    from weft.api.mcp.stdio_transport import serve_stdio
    from weft.api.threads import Threads
    from weft.store.tokens import identify
    from weft.swarm.identity import LOCAL, Identity, from_token
    from weft.swarm.long_poll import Room

    def identity() -> Identity:
        return LOCAL if not token else from_token(identify(store, token, now=time.time()))

    async def serve() -> None:
        room, leaving, threads = Room(store), anyio.Event(), Threads(_THREADS, each=_THREADS)

        def caller() -> Call:
            return Call(
                store=store,
                room=room,
                project=found,
                who=identity(),
                leaving=leaving,
                threads=threads,
            )

        await serve_stdio(caller, room)

    identity()  # a token that is good for nothing is told before anything is asked
    anyio.run(serve)
