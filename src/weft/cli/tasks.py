"""`weft tasks`"""

from __future__ import annotations

from typing import Any

import click

from weft.cli.output import json_option, print_json, print_table
from weft.cli.project_argument import pass_store
from weft.cli.task_arguments import run_argument
from weft.formats import dollars, first_sentence
from weft.runs.task_list import ListedTask, list_listed
from weft.store import Store
from weft.words import full_label, task_state


@click.command(name="tasks")
@run_argument
@json_option
@pass_store
def command(store: Store, run: str | None, as_json: bool) -> None:
    """List the tasks of a run, or of all unfinished runs.

    Without RUN also the unfinished tasks that belong to no run; if no run is unfinished, the
    tasks of the newest run. `weft why TASK` explains one of them.
    """
    listed = list_listed(store, run)
    if as_json:
        print_json({"tasks": [_as_dict(line) for line in listed]})
    elif not listed:
        click.echo("There are no tasks yet: `weft run FILE` makes some.")
    else:
        print_table(
            ("TASK", "STATE", "AGENT", "TRIES", "COST", "TITLE"), [_row(line) for line in listed]
        )


def _row(line: ListedTask) -> tuple[object, ...]:
    task = line.task
    cost = dollars(line.micro_usd) if line.micro_usd else ""
    return full_label(task), task_state(task), task.agent or "", line.attempts, cost, _title(line)


def _title(line: ListedTask) -> str:
    return line.task.request.title or first_sentence(line.task.text)


def _as_dict(line: ListedTask) -> dict[str, Any]:
    task = line.task
    return {
        "task": task.id,
        "run": task.run,
        "name": task.name,
        "title": _title(line),
        "state": task.state.value,
        "since": task.since,
        "until": task.until,
        "reason": task.reason,
        "agent": task.agent,
        "stage": task.stage,
        "attempts": line.attempts,
        "tokens": line.tokens,
        "micro_usd": line.micro_usd,
    }
