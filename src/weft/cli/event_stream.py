"""Events as they happen, one a line: for people without a terminal, and for programs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import click

from weft.cli.output import printable
from weft.cli.words import clock
from weft.errors import NoAnswer

if TYPE_CHECKING:
    from weft.model import Event
    from weft.store import Store

_BEFORE: Final = 20  # events shown of what happened before
_NET: Final = 1.0  # seconds after which to look although nobody rang


def stream(store: Store, run: str | None, *, as_json: bool) -> None:
    """Print the latest events and all that come: of one run until it has ended, or of all."""
    names = _Names(store)
    for event in follow(store):
        if run is not None and event.run != run:
            continue
        line = _as_json(event) if as_json else _line(event, names)
        if line:
            click.echo(line)
        if run is not None and event.kind == "run_ended":
            return


def follow(store: Store) -> Iterator[Event]:
    """The latest events, and all that come; never ends by itself."""
    from weft.store.events import last_event, read_events

    after = max(0, last_event(store) - _BEFORE)
    said = False
    with store.listen("events") as listener:
        while True:
            try:
                while events := read_events(store, after=after):
                    after = events[-1].id
                    yield from events
                said = False
            except NoAnswer as error:  # goes on when the server is back
                if not said:
                    click.echo(f"weft: {printable(str(error))}", err=True)
                said = True
            listener.wait(_NET)


class _Names:
    """What people call tasks, asked for once each."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[int, str] = {}

    def of(self, event: Event) -> str:
        if event.task is None:
            return event.run or ""
        if event.task not in self._known:
            from weft.store.tasks import get_task

            task = get_task(self._store, event.task)
            self._known[task.id] = f"{task.run}/{task.name}" if task.run else f"task {task.id}"
        return self._known[event.task]


def _line(event: Event, names: _Names) -> str:
    from weft.cli.event_text import text

    said = text(event)
    return printable(f"{clock(event.at)}  {names.of(event)}  {said}") if said else ""


def _as_json(event: Event) -> str:
    told = {
        "id": event.id,
        "at": event.at,
        "kind": event.kind,
        "run": event.run,
        "task": event.task,
        "data": dict(event.data),
    }
    return json.dumps(told)
