"""`weft queue`"""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import groupby
from typing import Any, Final

import click
from msgspec.structs import asdict

from weft.cli.output import json_option, print_json, say
from weft.cli.project_argument import pass_store
from weft.formats import first_sentence
from weft.model import Task
from weft.runs.explanation import QueueView, read_queue
from weft.store import Store
from weft.words import entry_word, full_label

_MOST: Final = 100


@click.command(name="queue")
@json_option
@pass_store
def command(store: Store, as_json: bool) -> None:
    """Show the next tasks, why they wait, and the gate's queue."""
    queue = read_queue(store, now=time.time(), most=_MOST)
    if as_json:
        print_json(as_dict(queue))
    else:
        for line in lines(queue):
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
    return task.request.title or first_sentence(task.text)


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
            {"run": e.run, "entry": e.id, "state": e.state, "tasks": list(e.tasks)}
            for e in queue.entries
        ],
    }
