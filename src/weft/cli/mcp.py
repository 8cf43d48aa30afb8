"""`weft mcp`"""

from __future__ import annotations

import os
from pathlib import Path

import click

from weft.api.mcp.bridge import serve_bridge
from weft.project import project
from weft.project.server_address import SERVER


@click.command(name="mcp")
@click.option("--server", metavar="URL", help="The same as `weft --server URL mcp`.")
@click.pass_obj
def command(directory: Path, server: str | None) -> None:
    """Serve weft's tools over standard input and output (MCP).

    For programs that start MCP servers themselves: name `weft mcp` as the command. The tools act
    on this repository's store, with the rights of the token in WEFT_TOKEN, or with yours. With
    --server every message goes to that server. Agents that a `weft serve` starts get the tools
    without this command.
    """
    if server:
        os.environ[SERVER] = server
    elsewhere = project.find_elsewhere(directory, os.environ)
    if elsewhere is not None and elsewhere.server is not None:
        serve_bridge(elsewhere.server.url, elsewhere.server.token)
        return
    # Imported late: the MCP library takes a second, and the bridge does without it.
    from weft.cli.mcp_server import serve_project

    serve_project(project.find_here(directory, os.environ))
