"""Following a run: what happens as a live view or as lines, and its plan kept in step."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
from msgspec import Struct

from weft import git
from weft.cli.output import printable, say
from weft.cli.poll_interval import A_RUN, LIVE
from weft.cli.run_text import Out, RunLines
from weft.cli.worker_loops import attend, look_on_there
from weft.errors import WeftError
from weft.model import MET
from weft.plan.plan_records import Source
from weft.project.project import Project
from weft.runs.progress import Marks, RunProgress, find_plan, summary
from weft.runs.tracker import Events, Track
from weft.store import Store
from weft.store.runs import get_run
from weft.worker.engine import Interrupted
from weft.worker.projections.beads_program import find_beads
from weft.worker.projections.issue_tracker import Mirror
from weft.worker.projections.notifications import ENDED, PERSON_NEEDED, Notifier

if TYPE_CHECKING:
    from weft.cli.view import LiveView

log = logging.getLogger(__name__)

_SETTLES: Final = 1.0  # seconds a run may look stuck before it is taken to be
_WRITES: Final = 0.5  # seconds between two changes of the plan file's marks, at least


class Follow(Struct, frozen=True, kw_only=True):
    run: str
    plan: Path | None  # the plan file that the user named
    slots: int
    after: int  # the last event before the run was submitted or resumed
    writes: bool  # whether the plan file's marks, or its issues, follow the run
    shows: str  # view, lines or nothing


class Followed(Struct, frozen=True, kw_only=True):
    code: int  # 0 if it has ended well, 1 if it needs a person or failed
    track: Track  # the run as it was in the end


def follow(project: Project, store: Store, what: Follow) -> Followed:
    """Follow a run to its end, or until it needs a person; serve it if nobody else does."""
    marks = _marks(project, store, what) if what.writes else None
    with (
        _shown(store, what) as (out, view),
        _notifier(project) as notifier,
        _mirror(project, store, what.run, marks) as mirror,
    ):
        watch = _Watch(store, what, out, view, marks, notifier, mirror)
        try:
            if project.server is None:
                attend(project, store, watch, slots=what.slots)
            else:
                look_on_there(store, watch.track.progress.run.repo, watch)
        except Interrupted:
            watch.look()
            raise KeyboardInterrupt from None
        finally:
            watch.bring_marks_up_to_date()
    return Followed(code=watch.code, track=watch.track)


@contextmanager
def _shown(store: Store, what: Follow) -> Iterator[tuple[Out, LiveView | None]]:
    with ExitStack() as stack:
        if what.shows != "view":
            yield (say if what.shows == "lines" else _nothing), None
            return
        from weft.cli.view import open_view  # late: most of a command's start-up time

        view = stack.enter_context(open_view(store))
        yield view.tell, view


def _nothing(_line: str) -> None:
    pass


@contextmanager
def _notifier(project: Project) -> Iterator[Notifier]:
    notifier = Notifier(project)
    try:
        yield notifier
    finally:
        notifier.close()


@contextmanager
def _mirror(
    project: Project, store: Store, run: str, marks: Marks | None
) -> Iterator[Mirror | None]:
    """Where the plan was exported from `bd`, its issues have the marks."""
    if marks is None or marks.source is not Source.BEADS:
        yield None
        return
    beads = find_beads(marks.path, project.environment)
    if beads is None:
        click.echo("weft: bd is not on the PATH; its issues are left as they are.", err=True)
        yield None
        return
    lock = git.common_directory(marks.path.parent) / "weft" / "beads.lock"
    mirror = Mirror(beads, store, run, lock=lock)
    try:
        yield mirror
    finally:
        mirror.close()


class _Watch:
    def __init__(
        self,
        store: Store,
        what: Follow,
        out: Out,
        view: LiveView | None,
        marks: Marks | None,
        notifier: Notifier,
        mirror: Mirror | None,
    ) -> None:
        self.code = 1
        self.rhythm = A_RUN if view is None else LIVE
        self.track = Track(store, what.run, now=time.time())
        self._events = Events(store, after=what.after)
        self._lines = RunLines(what.run, out)
        self._view = view
        self._marks = marks
        self._marked = 0.0
        self._behind = True  # whether the marks may be
        self._notifier = notifier
        self._asked: set[str] = set()  # what people were told they are needed for
        self._stuck_since: float | None = None
        self._mirror = mirror
        self._lines.know(self.track.progress)
        if mirror is not None:
            mirror.take_in(self.track.progress)

    def look(self) -> bool:
        events = self._events.fresh()
        self._lines.tell(events)
        changed = self.track.take_in(events, now=time.time())
        self._behind |= changed
        progress = self.track.progress
        if self._mirror is not None and changed:
            self._mirror.take_in(progress, events)
        now = time.monotonic()
        if now - self._marked > _WRITES:
            self.bring_marks_up_to_date()
            self._marked = now
        self._ask(progress)
        if self._view is not None:
            self._view.show([self.track])
        if progress.ended:
            self.code = 0 if all(task.state in MET for task in progress.tasks) else 1
            self._notifier.tell(ENDED, progress.run.id, summary(progress))
            return True
        self._stuck_since = (self._stuck_since or now) if progress.stuck else None
        if self._stuck_since is None or now - self._stuck_since <= _SETTLES:
            return False
        self.track.read_needs(now=time.time())  # somebody may have helped in this moment
        return self.track.progress.stuck

    def bring_marks_up_to_date(self) -> None:
        """A plan file that cannot be written is no reason to stop."""
        if self._marks is None or not self._behind:
            return
        self._behind = False
        try:
            self._marks.bring_up_to_date(self.track.progress)
        except (WeftError, OSError) as error:
            log.warning("the marks of the plan are behind: %s", error)

    def _ask(self, progress: RunProgress) -> None:
        """Tell people once of each thing they are needed for."""
        questions = {str(need) for need in progress.questions}
        if questions - self._asked and not progress.ended:
            self._notifier.tell(PERSON_NEEDED, progress.run.id, summary(progress))
        self._asked = questions


def _marks(project: Project, store: Store, what: Follow) -> Marks | None:
    if what.plan is not None:
        return Marks(what.plan)
    if project.server is not None:
        # A server could name any file of this machine, so weft writes only to files the user named.
        click.echo(
            "weft: the marks of the plan are left alone; `weft run FILE --resume "
            f"{what.run}` keeps those of FILE in step.",
            err=True,
        )
        return None
    run = get_run(store, what.run)
    path = find_plan(run)
    if path is None:
        click.echo(f"weft: {printable(run.plan)} is not here; its marks are left alone.", err=True)
        return None
    return Marks(path)
