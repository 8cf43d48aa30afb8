"""`weft logs` and `weft diff`"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from typing import Final

import click

from weft.cli.command_arguments import pass_project, print_chosen_run, task_argument
from weft.cli.output import json_option, print_json, printable
from weft.project.project import Project
from weft.runs.attempt_output import LogLine, TaskLog
from weft.runs.task_diff import TaskDiff, get_diff
from weft.runs.task_names import get_named_task


@click.command(name="logs")
@task_argument
@click.option("-f", "--follow", is_flag=True, help="Go on until the task ends or needs you.")
@click.option("--attempt", type=click.IntRange(min=1), metavar="N", help="Default: the latest.")
@click.option("--stderr", "errors", is_flag=True, help="Its standard error instead.")
@click.option("--raw", is_flag=True, help="Lines as the program printed them.")
@json_option
@pass_project
def logs(
    project: Project,
    name: str,
    follow: bool,
    attempt: int | None,
    errors: bool,
    raw: bool,
    as_json: bool,
) -> None:
    """Show the output of a task's agent.

    Its program's own format is made readable; --raw leaves it as it is. With --json each line is
    an object of its own.
    """
    with project.open_store() as store:
        named = get_named_task(store, name)
        print_chosen_run(store, name, named.id)
        log = TaskLog(
            project=project,
            store=store,
            task=named,
            stream="stderr" if errors else "stdout",
            raw=raw,
        )
        if attempt is not None or not follow:
            chosen = log.get_attempt(attempt)
        output = log.follow(attempt) if follow else log.read(chosen)
        _print_log(output, as_json=as_json, exact=raw)


def _print_log(output: Iterable[LogLine], *, as_json: bool, exact: bool) -> None:
    """Print lines as they come; raw lines byte by byte, unless they go to a terminal."""
    exact = exact and not sys.stdout.isatty()
    last: int | None = None
    for line in output:
        if as_json:
            fields = {"attempt": line.attempt, "text": printable(line.text)}
            click.echo(json.dumps(fields, ensure_ascii=False))
            continue
        if last not in (None, line.attempt) and not exact:
            click.echo(f"— attempt {line.attempt} —")
        last = line.attempt
        click.echo(os.fsencode(line.text) if exact else printable(line.text))


_COLOURS: Final = (("+++", None), ("---", None), ("+", "green"), ("-", "red"), ("@@", "cyan"))


@click.command(name="diff")
@task_argument
@json_option
@pass_project
def diff(project: Project, name: str, as_json: bool) -> None:
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
        _print_patch(change)
    else:
        click.echo(change.patch, nl=False)


def _print_patch(change: TaskDiff) -> None:
    """Print a patch for people; agents' text cannot steer the terminal, the colours are weft's."""
    which = "landed" if change.attempt is None else f"attempt {change.attempt}"
    click.echo(printable(f"{change.name}, {which}: {change.base[:12]}..{change.commit[:12]}"))
    for line in change.patch.decode(errors="replace").splitlines():
        colour = next((colour for start, colour in _COLOURS if line.startswith(start)), None)
        click.echo(click.style(printable(line), fg=colour))
