"""`weft loop`"""

from __future__ import annotations

from collections import Counter
from typing import Final

import click

from weft import bounds
from weft.cli.command_arguments import pass_project
from weft.cli.output import json_option, say, show
from weft.cli.poll_interval import A_RUN
from weft.cli.run_text import Out, RunLines
from weft.cli.worker_loops import attend, look_on_there
from weft.model import State
from weft.operations.agent_loop import DISPATCHER, LoopState, advance, start_loop
from weft.project.project import Project
from weft.runs.progress import read_progress
from weft.runs.tracker import EventReader
from weft.store import Store
from weft.store.event_log import last_event
from weft.store.runs import get_run
from weft.store.tasks import list_run
from weft.words import land_command, progress_text
from weft.worker.engine import Interrupted

_ENDS: Final = {
    LoopState.DONE: "nothing is left to hand out",
    LoopState.SLEEPS: "the dispatcher sleeps; `weft loop` goes on when it wakes",
    LoopState.NEEDS_YOU: "the rest needs you: `weft ps`",
    LoopState.TURNS: "the dispatcher hands out the same work again; `weft why {run}/{last}`",
}


@click.command(name="loop")
@click.option(
    "--agent", default=DISPATCHER, show_default=True, metavar="NAME", help="The dispatcher."
)
@click.option("--slots", type=click.IntRange(1, bounds.SLOTS), metavar="N", help="Tasks at a time.")
@json_option
@pass_project
def command(project: Project, agent: str, slots: int | None, as_json: bool) -> int:
    """Let a dispatcher hand out work until nothing is left.

    The dispatcher is an agent whose file says `hands_to`: it chooses a piece of work and hands
    its task over. Then it starts again, until it ends without a hand-over, or sleeps. The result
    is the branch weft/<run>, as after `weft run`. `weft init --template loop` writes such agents.
    `weft loop` goes on with an unfinished loop.
    """
    run = start_loop(project, agent, slots)
    at_once = slots or project.config.worker_slots
    with project.open_store() as store:
        watch = LoopWatch(store, run, at_once, say if not as_json else _nothing)
        try:
            if project.server is None:
                attend(project, store, watch, slots=at_once)
            else:
                look_on_there(store, get_run(store, run).repo, watch)
        except Interrupted:
            click.echo("weft: interrupted; `weft loop` goes on.", err=True)
            raise KeyboardInterrupt from None
        _report(store, run, watch.state, as_json)
    return 0 if watch.state in (LoopState.DONE, LoopState.SLEEPS) else 1


def _nothing(_line: str) -> None:
    pass


class LoopWatch:
    """Prints the events of a loop, and gives it its next task."""

    def __init__(self, store: Store, run: str, most: int, out: Out) -> None:
        self.rhythm = A_RUN
        self.state = LoopState.WORKS
        self._store = store
        self._run = run
        self._most = most
        self._events = EventReader(store, after=last_event(store))
        self._lines = RunLines(run, out)

    def look(self) -> bool:
        events = self._events.fresh()
        if any(event.run == self._run for event in events):
            self._lines.know(read_progress(self._store, self._run))
        self._lines.tell(events)
        self.state = advance(self._store, self._run, most=self._most)
        return self.state is not LoopState.WORKS


def _report(store: Store, run: str, state: LoopState, as_json: bool) -> None:
    tasks = list_run(store, run)
    counts = Counter(State(task.state) for task in tasks)
    end = _ENDS[state].format(run=run, last=tasks[-1].name)
    lines = [f"{run}: {end}; {progress_text(counts)}"]
    if state is LoopState.DONE and counts[State.DONE] > 1:
        lines.append(f"next: `{land_command(get_run(store, run))}` moves your branch to the work.")
    show({"run": run, "state": state, "tasks": counts}, lines, as_json=as_json)
