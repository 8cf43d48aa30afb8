"""`weft cancel`"""

from __future__ import annotations

from pathlib import Path

import click

from weft.cli.control_command import steer
from weft.cli.output import json_option
from weft.cli.task_arguments import either_argument


@click.command(name="cancel")
@either_argument
@json_option
@click.pass_obj
def command(directory: Path, name: str, as_json: bool) -> None:
    """Cancel a task, or all of a run that has not ended.

    Running agents are stopped, and what they did is kept. What is landing can no longer be
    stopped. `weft retry` reopens a task; a cancelled run has ended.
    """
    from weft.runs.control import cancel

    steer(directory, lambda store, now: cancel(store, name, now=now), as_json=as_json)
