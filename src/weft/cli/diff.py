"""`weft diff`"""

from __future__ import annotations

import sys
from typing import Final

import click

from weft.cli.output import json_option, print_json, printable
from weft.cli.project_argument import pass_project
from weft.cli.task_arguments import print_chosen_run, task_argument
from weft.project.project import Project
from weft.runs.task_diff import TaskDiff, get_diff

_COLOURS: Final = (("+++", None), ("---", None), ("+", "green"), ("-", "red"), ("@@", "cyan"))


@click.command(name="diff")
@task_argument
@json_option
@pass_project
def command(project: Project, name: str, as_json: bool) -> None:
    """Show the changes of a task, landed or not.

    What has not landed is shown as its latest attempt left it. Not on a terminal it is a patch,
    byte by byte: weft diff 2.3 | git apply
    """
    change = get_diff(project, name)
    with project.open_store() as store:
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
    """Print a patch for people; agents' text cannot steer the terminal, the colours are weft's."""
    which = "landed" if change.attempt is None else f"attempt {change.attempt}"
    click.echo(printable(f"{change.name}, {which}: {change.base[:12]}..{change.commit[:12]}"))
    for line in change.patch.decode(errors="replace").splitlines():
        colour = next((colour for start, colour in _COLOURS if line.startswith(start)), None)
        click.echo(click.style(printable(line), fg=colour))
