"""`weft page`"""

from __future__ import annotations

import click

from weft.cli.output import json_option, print_json, say
from weft.cli.page_link import PRINTED, get_server_url, make_link
from weft.cli.project_argument import pass_project
from weft.project.project import Project


@click.command(name="page")
@click.option("--read", is_flag=True, help="A link that shows everything and decides nothing.")
@json_option
@pass_project
def command(project: Project, read: bool, as_json: bool) -> None:
    """Print a link to the page of the server.

    The link works once, within 10 minutes, in any browser that reaches the server. Its code is
    exchanged for a token, which the browser forgets with its last tab. `weft --server URL page`
    prints a link to a server behind a proxy.
    """
    url = get_server_url(project)
    with project.open_store() as store:
        link = make_link(store, url, ("read",) if read else ("admin",), PRINTED)
    if as_json:
        print_json({"url": link, "seconds": PRINTED})
    else:
        say(link)
