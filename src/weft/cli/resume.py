"""`weft resume`"""

from __future__ import annotations

from pathlib import Path

import click

from weft.cli.control_command import steer
from weft.cli.output import json_option
from weft.cli.task_arguments import either_argument


@click.command(name="resume")
@either_argument
@json_option
@click.pass_obj
def command(directory: Path, name: str, as_json: bool) -> None:
    """Let a paused task go on, or all of a run and its gate."""
    from weft.runs.control import resume

    steer(directory, lambda store, now: resume(store, name, now=now), as_json=as_json)
