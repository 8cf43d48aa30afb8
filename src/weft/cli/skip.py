"""`weft skip`"""

from __future__ import annotations

from pathlib import Path

import click

from weft.cli.control_command import steer
from weft.cli.output import json_option
from weft.cli.task_arguments import task_argument


@click.command(name="skip")
@task_argument
@json_option
@click.pass_obj
def command(directory: Path, task: str, as_json: bool) -> None:
    """Leave a task out: what needs it goes on as if it were done.

    A running agent is stopped. `weft retry` takes it back in.
    """
    from weft.runs.control import skip

    steer(directory, lambda store, now: skip(store, task, now=now), as_json=as_json)
