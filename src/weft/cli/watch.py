"""`weft watch`"""

from __future__ import annotations

import time
from contextlib import AbstractContextManager, nullcontext

import click

from weft.cli.command_arguments import pass_project
from weft.cli.event_lines import stream
from weft.cli.output import json_option, say
from weft.cli.poll_interval import LIVE
from weft.cli.run_text import Out, RunLines
from weft.cli.view import LiveView, is_possible, open_view
from weft.cli.worker_loops import look_on
from weft.project.project import Project
from weft.runs.progress import find_unfinished
from weft.runs.tracker import EventReader, RunTracker
from weft.store import Store
from weft.store.event_log import last_event
from weft.store.runs import get_run
from weft.worker.engine import Interrupted


@click.command(name="watch")
@click.argument("run", required=False, metavar="[RUN]")
@click.option("--no-tty", is_flag=True, help="Plain lines, also on a terminal.")
@json_option
@pass_project
def command(project: Project, run: str | None, no_tty: bool, as_json: bool) -> int:
    """Watch runs, here or anywhere on the same store.

    With RUN until that run has ended, else until interrupted or `q`; `?` shows the keys. Does no
    work itself. Without a terminal each event is a line; with --json an object, reports of agents
    included.
    """
    with project.open_store() as store:
        if run is not None and get_run(store, run).state == "ended":
            say(f"run {run} has ended")
            return 0
        with _view(project, store, no_tty or as_json) as view:
            if view is None:
                stream(store, run, as_json=as_json)
                return 0
            try:
                look_on(store, Onlooker(store, run, view, view.tell))
            except Interrupted:
                return 130
    if run is not None and not view.leaves:
        say(f"run {run} has ended")
    return 0


def _view(project: Project, store: Store, no_tty: bool) -> AbstractContextManager[LiveView | None]:
    return nullcontext(None) if no_tty or not is_possible() else open_view(project, store)


class Onlooker:
    """The follower of a run, or of all unfinished runs, also those submitted meanwhile."""

    rhythm = LIVE

    def __init__(self, store: Store, run: str | None, view: LiveView, out: Out) -> None:
        self._store = store
        self._run = run
        self._view = view
        self._out = out
        self._tracks: dict[str, RunTracker] = {}
        self._lines: dict[str, RunLines] = {}
        self._events = EventReader(store, after=last_event(store))
        self._find()

    def look(self) -> bool:
        events = self._events.fresh()
        if any(event.kind == "run_submitted" for event in events):
            self._find()
        for run, track in list(self._tracks.items()):
            track.take_in(events, now=time.time())
            self._lines[run].learn_names(track.progress)
            self._lines[run].tell(events)
            if track.progress.ended and self._run is None:
                self._out(f"{run} has ended")
                del self._tracks[run], self._lines[run]
        self._view.show(list(self._tracks.values()))
        if self._view.leaves:
            return True
        return self._run is not None and self._tracks[self._run].progress.ended

    def _find(self) -> None:
        """Follow the runs that are not followed yet."""
        for run in [self._run] if self._run else [run.id for run in find_unfinished(self._store)]:
            if run not in self._tracks:
                self._tracks[run] = RunTracker(self._store, run, now=time.time())
                self._lines[run] = RunLines(run, self._out, prefix="" if self._run else f"{run} ")
                self._lines[run].know(self._tracks[run].progress)
