"""`weft runs`"""

from __future__ import annotations

import os
from collections.abc import Sequence

import click

from weft.cli.command_arguments import pass_project
from weft.cli.output import json_option, print_json, print_table, say, show
from weft.config import command_line
from weft.formats import count
from weft.operations.run_changes import update_settings
from weft.project.agent_list import describe_unboxed
from weft.project.project import Project, get_project
from weft.runs.run_settings import ListedRun, as_dict, list_runs_with_settings
from weft.words import progress_text


@click.group(name="runs", invoke_without_command=True)
@json_option
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """List the runs and the commands that check them; update a run.

    A run keeps the check, the set-up and the agent files it was submitted with, whichever weft
    works on it. `weft runs update RUN` gives it those of this checkout.
    """
    if ctx.invoked_subcommand is not None:
        return
    listed = list_runs_with_settings(get_project(ctx.obj, os.environ))
    if as_json:
        print_json([as_dict(run) for run in listed])
        return
    if not listed:
        click.echo("There are no runs yet: `weft run FILE` makes one.")
        return
    print_table(
        ("RUN", "STATE", "PROGRESS", "LANDED ON", "AGENTS", "CHECKED BY"),
        [_row(run) for run in listed],
    )
    for run in listed:
        if unboxed := describe_unboxed(run.settings.gate, run.settings.agents):
            say(f"Run {run.run.id}: the sandbox is {unboxed}.")
        for line in difference_lines(run.run.id, run.differences):
            say(line)


@command.command(name="update")
@click.argument("run")
@json_option
@pass_project
def update_command(project: Project, run: str, as_json: bool) -> None:
    """Give RUN the check, set-up and agent files of this checkout.

    The log keeps the change. Work that passed another check is checked again before it lands;
    running agents go on as they were started.
    """
    done = update_settings(project, run)
    show(done, [done.text], as_json=as_json)


def difference_lines(run: str, differences: Sequence[str]) -> list[str]:
    """Return the note that a run keeps its settings although this checkout has changed."""
    if not differences:
        return []
    return [
        f"Run {run} keeps the settings it was submitted with, and this checkout has others: "
        f"{'; '.join(differences)}. `weft runs update {run}` takes these over."
    ]


def _row(listed: ListedRun) -> tuple[str, ...]:
    return (
        listed.run.id,
        "needs you" if listed.run.blocked else listed.run.state,
        progress_text(listed.tasks),
        ", ".join(listed.landed) or "-",
        ", ".join(sorted(listed.settings.agents)),
        _checks(listed),
    )


def _checks(listed: ListedRun) -> str:
    own = f"checks of {count(listed.own_checks, 'task')}" if listed.own_checks else ""
    run = command_line(listed.run.check) if listed.run.check else ""
    return ", ".join(part for part in (run, own) if part) or "nothing"
