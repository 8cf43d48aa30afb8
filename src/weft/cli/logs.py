"""`weft logs`"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable

import click

from weft.cli.output import json_option, printable
from weft.cli.project_argument import pass_project
from weft.cli.task_arguments import print_chosen_run, task_argument
from weft.project.project import Project
from weft.runs.attempt_output import LogLine, TaskLog
from weft.runs.task_names import get_named_task


@click.command(name="logs")
@task_argument
@click.option("-f", "--follow", is_flag=True, help="Go on until the task ends or needs you.")
@click.option("--attempt", type=click.IntRange(min=1), metavar="N", help="Default: the latest.")
@click.option("--stderr", "errors", is_flag=True, help="Its standard error instead.")
@click.option("--raw", is_flag=True, help="Lines as the program printed them.")
@json_option
@pass_project
def command(
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
        show(output, as_json=as_json, exact=raw)


def show(output: Iterable[LogLine], *, as_json: bool, exact: bool) -> None:
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
