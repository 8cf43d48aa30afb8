"""Events as they happen, each in a line: for people without a terminal, and for programs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

import click
from msgspec.structs import asdict

from weft.cli.output import printable
from weft.errors import NoAnswer
from weft.formats import clock
from weft.model import Event
from weft.runs.event_text import About, Teller
from weft.store import Store
from weft.store.event_log import last_event, read_events
from weft.store.tasks import get_task
from weft.words import full_label

_BEFORE: Final = 20  # earlier events shown
_NET: Final = 1.0  # seconds between two looks without a ring


def stream(store: Store, run: str | None, *, as_json: bool) -> None:
    """Print the latest events and all new events: of a run until it has ended, or of all runs."""
    lines = _Lines(store)
    for event in follow(store):
        if run is not None and event.run != run:
            continue
        line = _as_json(event) if as_json else lines.of(event)
        if line:
            click.echo(line)
        if run is not None and event.kind == "run_ended":
            return


def follow(store: Store) -> Iterator[Event]:
    """Yield the latest events and all new events, without end."""
    after = max(0, last_event(store) - _BEFORE)
    warned = False
    with store.listen("events") as listener:
        while True:
            try:
                while events := read_events(store, after=after):
                    after = events[-1].id
                    yield from events
                warned = False
            except NoAnswer as error:  # goes on when the server is back
                if not warned:
                    click.echo(f"weft: {printable(str(error))}", err=True)
                warned = True
            listener.wait(_NET)


class _Lines:
    """Events for people, with the names of tasks, each read once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[int, str] = {}
        self._teller = Teller()
        self._about = About(naming=self._name)

    def of(self, event: Event) -> str:
        text = self._teller.line(event, self._about)
        if not text:
            return ""
        subject = (event.run or "") if event.task is None else self._name(event.task)
        return printable(f"{clock(event.at)}  {subject}  {text}")

    def _name(self, number: int) -> str:
        if number not in self._known:
            task = get_task(self._store, number)
            self._known[task.id] = full_label(task) if task.run else f"task {task.id}"
        return self._known[number]


def _as_json(event: Event) -> str:
    return json.dumps(asdict(event))
