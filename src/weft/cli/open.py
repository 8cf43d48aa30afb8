"""`weft open`"""

from __future__ import annotations

import os
from pathlib import Path

import click

from weft.cli.output import json_option, print_json
from weft.cli.task_arguments import task_argument
from weft.errors import InputError
from weft.process import run_attached
from weft.project.project import get_local_project
from weft.runs.task_diff import get_workspace


@click.command(name="open")
@task_argument
@click.option("--with", "program", metavar="PROGRAM", help="Start this program on the workspace.")
@json_option
@click.pass_obj
def command(directory: Path, name: str, program: str | None, as_json: bool) -> int:
    """Print the workspace of a task, or open it in a program.

    The workspace is there while an agent works and until another attempt needs it. Look, but do
    not edit while the agent is working: it would take your edits for its own.

    Example: weft open 2.3 --with code
    """
    here = get_local_project(directory, os.environ)
    with here.open_store() as store:
        workspace = get_workspace(here, store, name)
    if as_json:
        print_json(
            {
                "task": workspace.task,
                "attempt": workspace.attempt,
                "workspace": str(workspace.path),
                "running": workspace.running,
            }
        )
    elif program is None:
        click.echo(str(workspace.path))
    else:
        return _start(program, workspace.path)
    return 0


def _start(program: str, path: Path) -> int:
    try:
        return run_attached([program, str(path)], directory=path, environment=os.environ)
    except OSError as error:
        raise InputError(f"{program} cannot start: {error.strerror}.") from error
