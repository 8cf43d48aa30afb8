"""`weft reject`"""

from __future__ import annotations

from pathlib import Path

import click

from weft.cli.control_command import steer
from weft.cli.output import json_option
from weft.cli.task_arguments import task_argument


@click.command(name="reject")
@task_argument
@click.argument("reason")
@json_option
@click.pass_obj
def command(directory: Path, task: str, reason: str, as_json: bool) -> None:
    """Say no to a question, or to what wants to land.

    What is at the gate goes back to be made again, and its agent is told REASON. What was asked of
    a person is blocked, and what needs it waits.
    """
    from weft.runs.control import reject

    steer(directory, lambda store, now: reject(store, task, reason, now=now), as_json=as_json)
