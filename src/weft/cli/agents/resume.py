"""`weft agents resume`"""

from __future__ import annotations

import os
from pathlib import Path

import click

from weft.cli.output import json_option, print_json, say


@click.command(name="resume")
@click.argument("name")
@json_option
@click.pass_obj
def command(directory: Path, name: str, as_json: bool) -> None:
    """Let the stopped agent NAME be started again.

    An agent is stopped, in all processes, when its program is not logged in or cannot run as it
    is set up: every task would fail the same way. Mend that first; `weft agents test NAME` tries
    it, and resumes the agent if it works.
    """
    from weft.project import project
    from weft.project.agent_list import resume

    resumed = resume(project.find(directory, os.environ), name)
    if as_json:
        print_json({"agent": name, "resumed": resumed})
    else:
        say(f"{name} can be started again." if resumed else f"{name} was not stopped.")
