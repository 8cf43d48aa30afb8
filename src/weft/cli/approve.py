"""`weft approve`"""

from __future__ import annotations

from pathlib import Path

import click

from weft.cli.control_command import steer
from weft.cli.output import json_option
from weft.cli.task_arguments import task_argument


@click.command(name="approve")
@task_argument
@json_option
@click.pass_obj
def command(directory: Path, task: str, as_json: bool) -> None:
    """Say that what a task asks of a person is done, or agreed to."""
    from weft.runs.control import approve

    steer(directory, lambda store, now: approve(store, task, now=now), as_json=as_json)
