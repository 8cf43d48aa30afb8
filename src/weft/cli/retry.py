"""`weft retry`"""

from __future__ import annotations

from pathlib import Path

import click

from weft.cli.control_command import steer
from weft.cli.output import json_option
from weft.cli.task_arguments import task_argument


@click.command(name="retry")
@task_argument
@json_option
@click.pass_obj
def command(directory: Path, task: str, as_json: bool) -> None:
    """Try a task again that ended or is blocked.

    What failed before is forgotten, so that it may fail as often again; what needs the task waits
    for it.
    """
    from weft.runs.control import retry

    steer(directory, lambda store, now: retry(store, task, now=now), as_json=as_json)
