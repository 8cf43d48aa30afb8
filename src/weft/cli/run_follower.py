"""Following a run: its events as a live view or as lines, until it ends or needs a person."""

from __future__ import annotations

import logging
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import click
from msgspec import Struct
from msgspec.structs import replace

from weft import git, plan
from weft.cli.output import printable, say
from weft.cli.poll_interval import A_RUN, LIVE
from weft.cli.run_text import Out, RunLines
from weft.cli.view import LiveView, open_view
from weft.cli.worker_loops import attend, look_on_there
from weft.errors import WeftError
from weft.formats import duration
from weft.model import BELOW_TEAM, MET, Event
from weft.plan.plan_records import ReaderOptions, Source
from weft.process import start_detached
from weft.project.project import Project
from weft.runs import plan_file
from weft.runs.attention import AttentionItem
from weft.runs.host_list import is_served
from weft.runs.progress import RunProgress
from weft.runs.tracker import EventReader, RunTracker
from weft.store import Store
from weft.store.projections import TARGET_BRANCH, ProjectionState, list_projections
from weft.worker.engine import Interrupted
from weft.worker.projections import News, Projection
from weft.worker.projections.beads_program import find_beads
from weft.worker.projections.issue_tracker import IssueTracker
from weft.worker.projections.plan_marks import PlanMarks
from weft.worker.projections.projection_loop import TRIES
from weft.worker.projections.state_file import StateFile

log = logging.getLogger(__name__)

_SETTLES: Final = 1.0  # seconds a run may look stuck before it is taken to be
_WRITES: Final = 0.5  # seconds between two updates of the client's plan file, at least
_FAREWELL: Final = 60.0  # seconds that the workers get for the projections at the end
_CLIENT_FAREWELL: Final = 10.0  # the same for the client's plan file
_NET: Final = 0.5  # seconds between two looks at the projections without a ring


class Follow(Struct, frozen=True, kw_only=True):
    run: str
    plan: Path | None  # the plan file that the user named
    slots: int
    after: int  # the last event before the run was submitted or resumed
    writes: bool  # whether the plan file's marks, or its issues, follow the run
    format: Source | None = None  # of the plan; None: found by its name and content
    state_file: Path | None = None  # of `--state`
    shows: str  # "view", "lines", or "result" alone


class Followed(Struct, frozen=True, kw_only=True):
    code: int  # 0 if it has ended well, 1 if it needs a person or failed
    track: RunTracker  # the run as it was in the end


def follow(project: Project, store: Store, what: Follow) -> Followed:
    """Follow a run to its end, or until it needs a person; be a worker while there is none."""
    worked = False
    shown = _shown(project, store, what)
    with shown as (out, view), _client_file(project, store, what) as file:
        watch = _Watch(store, what, out, view, file, leave=lambda: _detach(project, what.run, view))
        try:
            if project.server is None:
                worked = attend(project, store, watch, slots=what.slots)
            else:
                look_on_there(store, watch.track.progress.run.repo, watch)
        except Interrupted:
            watch.look()
            raise KeyboardInterrupt from None
        shortcomings = _wait_projections(store, watch, worked=worked)
        watch.look_after_work()
    for text in shortcomings:
        _warn(text)
    return Followed(code=watch.code, track=watch.track)


@contextmanager
def _shown(project: Project, store: Store, what: Follow) -> Iterator[tuple[Out, LiveView | None]]:
    with ExitStack() as stack:
        if what.shows != "view":
            yield (say if what.shows == "lines" else _nothing), None
            return
        view = stack.enter_context(open_view(project, store))
        yield view.tell, view


def _detach(project: Project, run: str, view: LiveView | None) -> None:
    """Start a process that goes on with the run, and end this one at once.

    The agents of this process go on: the next process adopts them, as after a crash.
    """
    if view is not None:
        view.close()
    log_file = git.common_directory(project.root) / "weft" / f"detached-{run}.log"
    start_detached(
        [sys.executable, "-m", "weft", "run", "--resume", run, "--no-tty"],
        directory=project.root,
        environment=project.environment,
        log=log_file,
    )
    say(f"run {run} goes on in the background: `weft watch {run}` shows it")
    sys.stdout.flush()
    os._exit(0)


def _nothing(_line: str) -> None:
    pass


class _Watch:
    def __init__(
        self,
        store: Store,
        what: Follow,
        out: Out,
        view: LiveView | None,
        file: _ClientFile | None,
        *,
        leave: Callable[[], None],
    ) -> None:
        self.code = 1
        self._leave = leave
        self.rhythm = A_RUN if view is None else LIVE
        self.track = RunTracker(store, what.run, now=time.time())
        self.last_event = what.after  # the last event of the run itself
        self._events = EventReader(store, after=what.after)
        self._lines = RunLines(what.run, out)
        self._view = view
        self._file = file
        self._stuck_since: float | None = None
        self._worker_left = -math.inf
        self._patience = store.tuning.gone_after  # seconds for a worker that left to come back
        self._awaited: AttentionItem | None = None  # the need for such a worker that was told
        self._lines.know(self.track.progress)
        if file is not None:
            file.take_in(self.track.progress, [])

    def look(self) -> bool:
        events = self._events.fresh()
        changed = self.track.take_in(events, now=time.time())
        self._lines.learn_names(self.track.progress)
        self._lines.tell(events)
        progress = self.track.progress
        run = progress.run.id
        mine = [event for event in events if event.run == run and event.kind != "progress"]
        self.last_event = mine[-1].id if mine else self.last_event
        if self._file is not None and changed:
            self._file.take_in(progress, mine)
        if self._view is not None:
            self._view.show([self.track])
            if self._view.leaves and not progress.ended:
                if progress.stuck:
                    return True
                self._leave()
        if progress.ended:
            asked = [task for task in progress.tasks if task.request.kind not in BELOW_TEAM]
            self.code = 0 if all(task.state in MET for task in asked) else 1
            return True
        if self._view is not None:
            return False  # a person who watches can help: the keys are at hand
        now = time.monotonic()
        if any(event.kind == "worker_departed" for event in events):
            self._worker_left = now
        self._stuck_since = (self._stuck_since or now) if progress.stuck else None
        if self._stuck_since is None or now - self._stuck_since <= _SETTLES:
            return False
        if now - self._worker_left < self._patience and self._awaits_worker(progress):
            return False
        self.track.read_needs(now=time.time())  # a person may have helped in this moment
        return self.track.progress.stuck

    def _awaits_worker(self, progress: RunProgress) -> bool:
        """Tell whether a worker that left could let the run go on; print the need once."""
        needs = progress.needs.of(progress.run.id)
        need = next((need for need in needs if need.kind == "worker"), None)
        if need is not None and need != self._awaited:
            text = f"! {need.subject} {need.text}: weft waits {duration(self._patience)} for it"
            self._lines.note(text)
        self._awaited = need
        return need is not None

    def look_after_work(self) -> None:
        """Show the last events; keep the needs, whose resources may have left with the worker."""
        needs = self.track.progress.needs
        self.look()
        self.track.progress = replace(self.track.progress, needs=needs)


def _wait_projections(store: Store, watch: _Watch, *, worked: bool) -> list[str]:
    """Wait until the workers have brought marks, issues, people and branch up to date.

    Return the reasons where they have not. If this process `worked`, it has logged its own.
    """
    progress = watch.track.progress
    until = time.monotonic() + _FAREWELL
    with store.listen("events") as listener:
        while True:
            states = list_projections(store, progress.run.id)
            late = [state for state in states if not _is_settled(state, watch)]
            if not late or time.monotonic() > until or not is_served(store, progress.run.repo):
                break
            listener.wait(_NET)
    reasons: list[str] = []
    for state in states:
        if state in late or (state.failure and not worked):
            again = f"`weft run --resume {progress.run.id}` catches up."
            reasons += [state.failure or f"{state.name} is behind; {again}"]
        elif _is_skipped(state):
            reasons += dict.fromkeys(state.skipped.values())
    return reasons


def _is_settled(state: ProjectionState, watch: _Watch) -> bool:
    if not state.open or (_is_skipped(state) and state.worker is None):
        return True
    if watch.track.progress.ended:
        return False
    return state.handled >= watch.last_event or state.tries >= TRIES or state.name == TARGET_BRANCH


def _is_skipped(state: ProjectionState) -> bool:
    """Tell whether the only host that could carry a projection out cannot."""
    return state.open and bool(state.skipped) and state.host in ("", *state.skipped)


def _warn(text: str) -> None:
    click.echo(f"weft: {printable(text)}", err=True)


class _ClientFile:
    """The files of a client of a server: no worker has them, so the client updates them."""

    def __init__(self, projections: Sequence[Projection]) -> None:
        self._projections = projections
        self._progress: RunProgress | None = None
        self._events: list[Event] = []
        self._updated = 0.0
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="plan-file")
        self._update: Future[None] | None = None

    def take_in(self, progress: RunProgress, events: list[Event]) -> None:
        self._progress = progress
        self._events += events
        busy = self._update is not None and not self._update.done()
        if not busy and time.monotonic() > self._updated + _WRITES:
            self._update = self._thread.submit(self._apply)

    def _apply(self, tries: int = 1, deadline: float = math.inf) -> None:
        if self._progress is None:
            return
        events = list(self._events)
        news = News(progress=self._progress, events=events, deadline=deadline)
        for number in range(1, tries + 1):
            try:
                for projection in self._projections:
                    projection.apply(news)
            except (WeftError, OSError) as error:
                if number == tries > 1:
                    _warn(str(error))
            else:
                del self._events[: len(events)]
                break
        self._updated = time.monotonic()

    def close(self) -> None:
        self._thread.submit(self._apply, TRIES, time.monotonic() + _CLIENT_FAREWELL).result()
        self._thread.shutdown()


@contextmanager
def _client_file(project: Project, store: Store, what: Follow) -> Iterator[_ClientFile | None]:
    if project.server is None:
        yield None
        return
    memory = () if what.format is None else (str(what.format),)
    own = [] if what.state_file is None else [StateFile(what.state_file, memory)]
    marks = _client_marks(project, store, what, memory) if what.writes else None
    file = _ClientFile([*own, *([] if marks is None else [marks])])
    try:
        yield file
    finally:
        file.close()


def _client_marks(
    project: Project, store: Store, what: Follow, memory: Sequence[str]
) -> Projection | None:
    # A server could name any file of this machine, so weft writes only to files the user named.
    path = what.plan
    if path is None:
        _warn(
            "the marks of the plan are left alone; `weft run FILE --resume "
            f"{what.run}` keeps those of FILE in step."
        )
        return None
    options = ReaderOptions(format=what.format)
    if plan.read(path.name, plan_file.read(path), options).plan.source is not Source.BEADS:
        return PlanMarks(path, store, memory)
    beads = find_beads(path, project.environment)
    if beads is None:
        _warn("bd is not on the PATH; its issues are left as they are.")
        return None
    lock = git.common_directory(path.parent) / "weft" / "beads.lock"
    return IssueTracker(beads, store, what.run, lock=lock)
