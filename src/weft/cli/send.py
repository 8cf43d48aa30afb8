"""`weft send`"""

from __future__ import annotations

import time

import click
from msgspec.structs import asdict

from weft.cli.output import json_option, print_json, say
from weft.cli.project_argument import pass_project
from weft.operations.identity import LOCAL
from weft.operations.inbox import write
from weft.project.project import Project


@click.command(name="send")
@click.argument("to", metavar="TASK|AGENT")
@click.argument("text")
@json_option
@pass_project
def command(project: Project, to: str, text: str, as_json: bool) -> None:
    """Send a message to a task's agent, to a member or to a lead.

    The agent of a running task gets it when it polls for messages, otherwise its next attempt
    does. A lead is an agent file with `stage: lead`: one that has nothing to do is started.
    """
    delivery = write(project, LOCAL, to, text, now=time.time())
    if as_json:
        print_json(asdict(delivery))
    else:
        say(str(delivery))
