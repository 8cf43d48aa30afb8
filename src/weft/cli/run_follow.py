"""Following a run: what happens as lines, and the marks of its plan file."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import click

from weft.cli.run_text import RunLines
from weft.cli.serving import serve
from weft.engine import Interrupted, guard
from weft.operations.project import Project
from weft.operations.running import Marks, Progress, look, tip_of
from weft.store import Store
from weft.store.events import read_events

_SETTLES = 1.0  # seconds a run may look stuck before it is taken to be


@dataclass(frozen=True, kw_only=True)
class Follow:
    run: str
    slots: int
    after: int  # the last event before the run was submitted or resumed
    writes: bool  # whether the plan file's marks follow the run
    quiet: bool


def follow(project: Project, store: Store, what: Follow) -> int:
    """Serve and follow a run; 0 once it has ended well, 1 if it needs a person or failed."""
    watch = _Watch(project, store, what)
    try:
        serve(project, store, lambda worker: watch, slots=what.slots, beside=guard)
    except Interrupted:
        watch.look()
        raise KeyboardInterrupt from None
    return watch.code


class _Watch:
    def __init__(self, project: Project, store: Store, what: Follow) -> None:
        self.code = 1
        self._project = project
        self._store = store
        self._what = what
        self._after = what.after
        self._lines = RunLines(what.run, quiet=what.quiet)
        self._marks = _marks(store, what)
        self._stuck_since: float | None = None

    def look(self) -> bool:
        self._lines.know(look(self._store, self._what.run))
        while events := read_events(self._store, after=self._after):
            self._after = events[-1].id
            self._lines.tell(events)
        progress = look(self._store, self._what.run)
        if self._marks is not None:
            self._marks.bring_up_to_date(progress, tip_of(self._project.root, progress.run.id))
        if progress.ended:
            self.code = 0 if not progress.questions() and _all_met(progress) else 1
            return True
        now = time.monotonic()
        self._stuck_since = (self._stuck_since or now) if progress.stuck else None
        return self._stuck_since is not None and now - self._stuck_since > _SETTLES


def _all_met(progress: Progress) -> bool:
    return all(task.state.value in ("done", "skipped") for task in progress.tasks)


def _marks(store: Store, what: Follow) -> Marks | None:
    if not what.writes:
        return None
    path = Path(look(store, what.run).run.plan)
    if not path.is_file():
        click.echo(f"weft: {path} is not here; its marks are left alone.", err=True)
        return None
    return Marks(path)
