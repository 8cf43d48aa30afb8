"""`weft pause`"""

from __future__ import annotations

from pathlib import Path

import click

from weft.cli.control_command import steer
from weft.cli.output import json_option
from weft.cli.task_arguments import either_argument


@click.command(name="pause")
@either_argument
@json_option
@click.pass_obj
def command(directory: Path, name: str, as_json: bool) -> None:
    """Keep a task, or all of a run, from starting.

    Running agents go on to their end, and what is at the gate lands. `weft resume` goes on.
    """
    from weft.runs.control import pause

    steer(directory, lambda store, now: pause(store, name, now=now), as_json=as_json)
