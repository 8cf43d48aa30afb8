"""`weft queue`"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import click
from msgspec.structs import asdict

from weft.cli.output import json_option, print_json, say
from weft.formats import first_line
from weft.model import Task
from weft.project import project
from weft.runs.queue_view import QueueView, read_queue
from weft.words import entry_word, full_label

_MOST: Final = 100


@click.command(name="queue")
@json_option
@click.pass_obj
def command(directory: Path, as_json: bool) -> None:
    """Show the next tasks, why they wait, and the gate's queue."""
    with project.find(directory, os.environ).open_store() as store:
        found = read_queue(store, now=time.time(), most=_MOST)
    if as_json:
        print_json(as_dict(found))
    else:
        for line in lines(found):
            say(line)


def lines(queue: QueueView) -> Iterator[str]:
    if not queue.ready and not queue.entries:
        yield "No task is ready, and none waits for the gate."
    for number, (task, waits) in enumerate(queue.ready, 1):
        held = "; ".join(wait.text for wait in waits) or "starts next"
        yield f"{number:>4}  {full_label(task)}  {_title(task)}  [{held}]"
    if queue.count > len(queue.ready):
        yield f"      … and {queue.count - len(queue.ready)} more"
    for run, entries in groupby(queue.entries, key=lambda entry: entry.run):
        yield f"gate of {run}"
        for number, entry in enumerate(entries, 1):
            alone = ", tested alone" if entry.alone else ""
            yield f"{number:>4}  {queue.names[entry.id]}  {entry_word(entry.state)}{alone}"


def _title(task: Task) -> str:
    return task.request.title or first_line(task.text)


def as_dict(queue: QueueView) -> dict[str, Any]:
    return {
        "ready": [
            {
                "task": task.id,
                "run": task.run,
                "name": task.name,
                "title": _title(task),
                "waits": [asdict(wait) for wait in waits],
            }
            for task, waits in queue.ready
        ],
        "count": queue.count,
        "gates": [
            {"run": one.run, "entry": one.id, "state": one.state, "tasks": list(one.tasks)}
            for one in queue.entries
        ],
    }
