"""The loop that carries out projections: those of this repository that no other worker holds."""

from __future__ import annotations

import logging
import math
import socket
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import anyio
from anyio.to_thread import run_sync

from weft.errors import NotFound, Refused, StaleFence, StoreError, WeftError
from weft.model import Event
from weft.project.site import Site
from weft.runs.progress import RunProgress
from weft.runs.tracker import EventReader, RunTracker
from weft.store.leases import find_lost, release, renew
from weft.store.projections import (
    ISSUE_TRACKER,
    NOTIFICATIONS,
    PLAN_MARKS,
    PLAN_STATE,
    ProjectionState,
    advance_projection,
    fail_projection,
    list_open_projections,
    list_projections,
    skip_projection,
    take_projection,
)
from weft.store.wake import wait_rung
from weft.worker.projections import News, Projection
from weft.worker.projections.beads_program import find_beads
from weft.worker.projections.issue_tracker import IssueTracker
from weft.worker.projections.notifications import Notifications
from weft.worker.projections.plan_marks import PlanMarks
from weft.worker.projections.state_file import StateFile
from weft.worker.projections.target_branch import TargetBranch

log = logging.getLogger(__name__)

TRIES: Final = 3  # of a projection that fails, once its run has ended

_NET: Final = 5.0  # seconds between two looks without a ring
_RESTS: Final = 10  # times as long as a look took, between two looks
_LONGEST_REST: Final = 0.5
_BETWEEN: Final = 0.5  # seconds between two updates of a projection
_FIRST_PAUSE: Final = 0.5  # seconds before a failed update is repeated; twice as many each time
_LAST_PAUSE: Final = 60.0
_FAREWELL: Final = 10.0  # seconds in which a worker that leaves brings its projections up to date

_BEHIND: Final = {
    PLAN_MARKS: "the marks of the plan are behind: ",
    PLAN_STATE: "the state file of the plan is behind: ",
}

Key = tuple[str, str]
"""A run and the name of a projection."""


class _Carried:
    """A projection that this worker holds."""

    def __init__(self, state: ProjectionState, fence: int, projection: Projection) -> None:
        self.run, self.name, self.fence = state.run, state.name, fence
        self.projection = projection
        self.handled = self.seen = state.handled
        self.fresh = True  # not brought up to date by this worker yet
        self.news = False  # an update may be due
        self.progress: RunProgress | None = None
        self.events: list[Event] = []
        self.tries = 0
        self.due = 0.0  # monotonic time of the next update, at the earliest
        self.busy = False
        self.over = False  # handled to the end, given up, or lost to another worker
        self.failure = ""
        self.lock = threading.Lock()  # between the looks and the updates

    def take_in(self, progress: RunProgress, events: Sequence[Event], changed: bool) -> None:
        with self.lock:
            self.progress = progress
            self.events += [
                event for event in events if event.run == self.run and event.id > self.seen
            ]
            self.seen = max([self.seen, *(event.id for event in events[-1:])])
            if self.projection.wants(progress, changed or self.fresh):
                self.news = True
            self.fresh = False


class ProjectionLoop:
    def __init__(self, site: Site, worker: str) -> None:
        self._site = site
        self._store = site.store
        self._worker = worker
        self._host = socket.gethostname()
        self._carried: dict[Key, _Carried] = {}
        self._tracks: dict[str, RunTracker] = {}
        self._events: EventReader | None = None
        self._renewed = -math.inf
        self._deadline = math.inf  # monotonic time at which this worker leaves
        self._took = 0.0  # seconds of the last look
        self._changed = anyio.Event()
        self._threads = anyio.CapacityLimiter(8)

    async def run(self) -> None:
        """Carry projections out until cancelled."""
        with self._store.listen("events") as listener:
            async with anyio.create_task_group() as group:
                while True:
                    await self._look()
                    for carried in self._list_due():
                        carried.busy = True
                        group.start_soon(self._update, carried)
                    await anyio.sleep(min(_LONGEST_REST, _RESTS * self._took))
                    await wait_rung(listener, seconds=self._wait_seconds(), event=self._changed)
                    self._changed = anyio.Event()

    async def finish(self) -> None:
        """Bring all projections up to date a last time, within a limit; give the leases back."""
        self._deadline = time.monotonic() + _FAREWELL
        while time.monotonic() < self._deadline:
            await self._look()
            left = [held for held in self._carried.values() if held.news and held.tries < TRIES]
            if not left:
                break
            async with anyio.create_task_group() as group:
                for carried in left:
                    group.start_soon(self._update, carried)
            pauses = [carried.due - time.monotonic() for carried in left if carried.news]
            await anyio.sleep(max(0.0, min([*pauses, _FIRST_PAUSE])) if pauses else 0.0)
        for carried in self._carried.values():
            if 0 < carried.tries < TRIES:
                log.warning("%s", carried.failure)
        await run_sync(self._release_all)

    async def _look(self) -> None:
        began = time.monotonic()
        try:
            await run_sync(self._take_in)
        except StoreError as error:
            log.warning("could not follow the runs for their plans: %s", error)
        self._took = time.monotonic() - began

    def _list_due(self) -> list[_Carried]:
        now = time.monotonic()
        return [
            carried
            for carried in self._carried.values()
            if carried.news and not carried.busy and carried.due <= now
        ]

    def _wait_seconds(self) -> float:
        dues = [held.due for held in self._carried.values() if held.news and not held.busy]
        until = min(dues, default=math.inf) - time.monotonic()
        return max(0.0, min(_NET, self._site.config.tuning.heartbeat, until))

    def _take_in(self) -> None:
        """Take free projections, and read the news of those that this worker holds."""
        now = time.time()
        states = {
            (state.run, state.name): state
            for state in list_open_projections(self._store, self._site.repository, now=now)
        }
        self._drop_lost(states)
        self._renew(now)
        for key, state in states.items():
            if key not in self._carried and state.worker is None:
                self._take(state, now)
        self._read_events(now)

    def _drop_lost(self, states: dict[Key, ProjectionState]) -> None:
        for key, carried in list(self._carried.items()):
            state = states.get(key)
            if state is not None and not carried.busy and state.tries < carried.tries:
                carried.tries, carried.due = 0, 0.0  # a person resumed the run
            if carried.busy:
                continue
            if carried.over or state is None or state.worker not in (None, self._worker):
                del self._carried[key]
                if state is None and not carried.over:
                    release(self._store, carried.fence, now=time.time(), reason="not wanted")

    def _renew(self, now: float) -> None:
        fences = {carried.fence: carried for carried in self._carried.values() if not carried.over}
        if fences and time.monotonic() > self._renewed + self._site.config.tuning.heartbeat:
            for fence in renew(self._store, list(fences), now=now):
                fences[fence].over = True
            self._renewed = time.monotonic()

    def _take(self, state: ProjectionState, now: float) -> None:
        projection = self._build(state)
        if isinstance(projection, str):
            if state.skipped.get(self._host) != projection:
                log.info("run %s: %s is skipped: %s", state.run, state.name, projection)
                skip_projection(
                    self._store, state.run, state.name, host=self._host, reason=projection
                )
            return
        try:
            taken = take_projection(
                self._store, state.run, state.name, worker=self._worker, now=now
            )
        except NotFound:  # this worker was taken for dead; its next sign of life registers it
            return
        if taken is None:
            return
        fence, state = taken
        carried = _Carried(state, fence, projection)
        self._carried[state.run, state.name] = carried
        if state.run not in self._tracks:
            self._tracks[state.run] = RunTracker(self._store, state.run, now=now)
        missed = EventReader(self._store, after=state.handled).fresh()
        track = self._tracks[state.run]
        track.take_in(missed, now=now)
        carried.take_in(track.progress, missed, True)

    def _build(self, state: ProjectionState) -> Projection | str:
        """Make the projection; return the reason if this host cannot carry it out."""
        site = self._site
        path = Path(state.path)
        if state.host not in ("", self._host):
            return f"{path} is on {state.host}."
        if state.name == PLAN_MARKS:
            if not path.is_file():
                return f"{path} is not here; its marks are left alone."
            return PlanMarks(path, self._store, state.memory)
        if state.name == PLAN_STATE:
            return StateFile(path, state.memory)
        if state.name == ISSUE_TRACKER:
            beads = find_beads(path, site.environment)
            if beads is None:
                return "bd is not on the PATH; its issues are left as they are."
            lock = site.common / "weft" / "beads.lock"
            names = {each.name for each in list_projections(self._store, state.run)}
            return IssueTracker(
                beads, self._store, state.run, lock=lock, beside=PLAN_MARKS in names
            )
        if state.name == NOTIFICATIONS:
            if site.config.notify.command is None:
                return "weft.toml has no [notify] command, so no notification is sent."
            return Notifications(site.config.notify, site.root, site.environment, state.memory)
        return TargetBranch(self._store, site.root, state.run)

    def _read_events(self, now: float) -> None:
        runs = {carried.run for carried in self._carried.values()}
        self._tracks = {run: track for run, track in self._tracks.items() if run in runs}
        if not runs:
            self._events = None
            return
        if self._events is None:
            seen = min(carried.seen for carried in self._carried.values())
            self._events = EventReader(self._store, after=seen)
        fresh = self._events.fresh()
        for run, track in self._tracks.items():
            changed = track.take_in(fresh, now=now)
            for carried in self._carried.values():
                if carried.run == run:
                    carried.take_in(track.progress, fresh, changed)

    async def _update(self, carried: _Carried) -> None:
        carried.busy = True
        try:
            await run_sync(self._apply, carried, limiter=self._threads)
        finally:
            carried.busy = False
            self._changed.set()

    def _apply(self, carried: _Carried) -> None:
        with carried.lock:
            progress, events, seen = carried.progress, carried.events, carried.seen
            carried.events, carried.news = [], False
        assert progress is not None
        try:
            memory = carried.projection.apply(
                News(
                    progress=progress,
                    events=events,
                    confirm=lambda: self._confirm(carried),
                    deadline=self._deadline,
                )
            )
            advance_projection(
                self._store,
                carried.fence,
                carried.run,
                carried.name,
                handled=seen,
                memory=memory,
                ended=progress.ended,
                now=time.time(),
            )
        except StaleFence as lost:
            log.info("run %s: %s is left: %s", carried.run, carried.name, lost)
            carried.over = True
            return
        except Exception as error:
            if not isinstance(error, WeftError | OSError):
                log.exception("run %s: %s failed", carried.run, carried.name)
            self._fail(carried, error, events, ended=progress.ended)
            return
        carried.tries, carried.failure = 0, ""
        carried.handled, carried.over = seen, progress.ended
        carried.due = time.monotonic() + _BETWEEN

    def _fail(
        self, carried: _Carried, error: Exception, events: list[Event], *, ended: bool
    ) -> None:
        with carried.lock:
            carried.events, carried.news = [*events, *carried.events], True
        carried.tries += 1
        pause = min(_LAST_PAUSE, _FIRST_PAUSE * 2 ** (carried.tries - 1))
        carried.due = time.monotonic() + pause
        carried.failure = _BEHIND.get(carried.name, "") + (str(error) or type(error).__name__)
        if isinstance(error, StoreError):
            return
        give_up = ended and carried.tries >= TRIES
        try:
            fail_projection(
                self._store,
                carried.fence,
                carried.run,
                carried.name,
                failure=carried.failure,
                give_up=give_up,
                now=time.time(),
            )
        except (StoreError, StaleFence) as unrecorded:
            log.warning("run %s: %s (%s)", carried.run, carried.failure, unrecorded)
            return
        if carried.tries == TRIES:
            log.warning("%s", carried.failure)
        carried.over = give_up

    def _confirm(self, carried: _Carried) -> None:
        if find_lost(self._store, [carried.fence]):
            raise StaleFence(f"another worker has {carried.name} of run {carried.run} now.")

    def _release_all(self) -> None:
        for carried in self._carried.values():
            try:
                release(self._store, carried.fence, now=time.time())
            except (StoreError, Refused) as error:
                log.warning("could not give back %s of %s: %s", carried.name, carried.run, error)
        self._carried.clear()
