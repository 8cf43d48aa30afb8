"""`weft mcp`"""

from __future__ import annotations

import os
from pathlib import Path

import click

from weft.api.mcp.bridge import serve_bridge
from weft.project.project import find_server_project, get_local_project
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
    remote = find_server_project(directory, os.environ)
    if remote is not None and remote.server is not None:
        serve_bridge(remote.server.url, remote.server.token)
        return
    # Imported late: the MCP library takes a second, and the bridge does without it.
    from weft.cli.mcp_server import serve_project

    serve_project(get_local_project(directory, os.environ))
