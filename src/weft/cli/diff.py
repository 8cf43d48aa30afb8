"""`weft diff`"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

import click

from weft.cli.output import json_option, print_json, printable
from weft.cli.task_arguments import print_chosen_run, task_argument
from weft.project import project
from weft.runs.task_diff import TaskDiff, get_diff

_COLOURS: Final = (("+++", None), ("---", None), ("+", "green"), ("-", "red"), ("@@", "cyan"))


@click.command(name="diff")
@task_argument
@json_option
@click.pass_obj
def command(directory: Path, name: str, as_json: bool) -> None:
    """Show the changes of a task, landed or not.

    What has not landed is shown as its latest attempt left it. Not on a terminal it is a patch,
    byte by byte: weft diff 2.3 | git apply
    """
    found = project.find(directory, os.environ)
    change = get_diff(found, name)
    with found.open_store() as store:
        print_chosen_run(store, name, change.task)
    if as_json:
        print_json(
            {
                "task": change.task,
                "attempt": change.attempt,
                "landed": change.landed,
                "base": change.base,
                "commit": change.commit,
                "diff": change.patch.decode(errors="replace"),
            }
        )
    elif sys.stdout.isatty():
        show(change)
    else:
        click.echo(change.patch, nl=False)


def show(change: TaskDiff) -> None:
    """For people. What agents wrote may not steer the terminal, so the colours are ours."""
    which = "landed" if change.attempt is None else f"attempt {change.attempt}"
    click.echo(f"{change.name}, {which}: {change.base[:12]}..{change.commit[:12]}")
    for line in change.patch.decode(errors="replace").splitlines():
        colour = next((colour for start, colour in _COLOURS if line.startswith(start)), None)
        click.echo(click.style(printable(line), fg=colour))
