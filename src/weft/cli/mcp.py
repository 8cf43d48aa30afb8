"""`weft mcp`"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from weft.operations.project import Project
    from weft.store import Store

_TOKEN = "WEFT_TOKEN"  # noqa: S105 - the name of a variable


@click.command(name="mcp")
@click.option(
    "--server",
    envvar="WEFT_SERVER",
    metavar="URL",
    help="Pass everything on to this server, with the token in WEFT_TOKEN.",
)
@click.pass_obj
def command(directory: Path, server: str | None) -> None:
    """Serve weft's tools to an agent, over standard input and output (MCP).

    For programs that start MCP servers themselves: name `weft mcp` as the command. The tools act
    on this repository's store; with a token in WEFT_TOKEN they may do what that token may. Agents
    that weft starts are given its tools by themselves, where there is a `weft serve`.
    """
    if server:
        from weft.errors import Unauthenticated
        from weft.mcp.bridge import serve_bridge

        token = os.environ.get(_TOKEN)
        if not token:
            raise Unauthenticated(f"A server wants a token: put one into {_TOKEN}.")
        serve_bridge(server, token)
        return
    from weft.operations import project

    found = project.find(directory, os.environ)
    with found.open_store() as store:
        _serve(found, store, os.environ.get(_TOKEN))


def _serve(found: Project, store: Store, token: str | None) -> None:
    import time

    import anyio

    from weft.mcp.call import Call
    from weft.mcp.stdio import serve_stdio
    from weft.operations.swarm.identity import LOCAL, Identity, from_token
    from weft.store.tokens import identify
    from weft.waiting import Room

    def identity() -> Identity:
        return LOCAL if not token else from_token(identify(store, token, now=time.time()))

    async def serve() -> None:
        room, leaving = Room(store), anyio.Event()

        def caller() -> Call:
            return Call(store=store, room=room, project=found, who=identity(), leaving=leaving)

        await serve_stdio(caller, room)

    identity()  # a token that is good for nothing is told before anything is asked
    anyio.run(serve)
