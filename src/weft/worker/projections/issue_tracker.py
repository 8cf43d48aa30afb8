"""The mirror: the issues a run's plan was exported from follow the run, told by one writer.

A projection of the store: how each issue shall be is read off the run as it is, and compared
with what `bd` says before it is told anything. So nothing needs to be remembered, and whoever
follows the run again brings the issues up to date. What fails is tried again, each time later,
and never stops the run.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Final

from msgspec import Struct

from weft.errors import WeftError
from weft.model import Event, State, Task, TaskKind
from weft.runs.progress import RunProgress
from weft.store import Store
from weft.store.events import record_mirror_failure
from weft.worker.projections.beads_program import (
    BLOCKED,
    CLOSED,
    IN_PROGRESS,
    OPEN,
    Beads,
    BeadsError,
    Shown,
    WantedStatus,
    is_id,
)
from weft.workspace.locks import Lock

log = logging.getLogger(__name__)

_TOGETHER: Final = 50  # issues `bd` is asked about at once
_LONGEST: Final = 60.0  # seconds before a call is made again
_LAST_TRIES: Final = 3  # of each issue, once the run is not followed any more
_ELSEWHERE: Final = {
    State.BLOCKED: BLOCKED,
    State.FAILED: BLOCKED,
    State.CANCELLED: OPEN,
    State.EVICTED: OPEN,
    State.SKIPPED: OPEN,
}


class Pace(Struct, frozen=True, kw_only=True):
    call: float = 15.0  # seconds a call may take
    rest: float = 0.5  # seconds before one that failed is made again; twice as many each time
    farewell: float = 10.0  # seconds in which the rest is told at the end


class _Untold(Struct, kw_only=True):
    task: int
    wanted: WantedStatus
    tries: int = 0
    due: float = 0.0


class Mirror:
    """One run. `take_in` says how it is; a thread tells `bd`, one thing after the other."""

    def __init__(
        self, beads: Beads, store: Store, run: str, *, lock: Path, pace: Pace | None = None
    ) -> None:
        self._beads = beads
        self._store = store
        self._run = run
        self._lock = lock  # there is one writer for the repository, whoever else follows
        self._pace = pace or Pace()
        self._seen: dict[int, Task] = {}
        self._notes: dict[int, str] = {}  # why tasks were sent back
        self._wanted: dict[str, WantedStatus] = {}
        self._untold: dict[str, _Untold] = {}
        self._changed = threading.Condition()
        self._until: float | None = None  # the moment to stop trying
        self._reported: set[str] = set()
        self._last_failure = ""
        self._thread = threading.Thread(target=self._work, name="mirror")
        self._thread.start()

    def take_in(self, progress: RunProgress, events: Iterable[Event] = ()) -> None:
        """Take in how the run is. Of what is still untold, only the newest will be told."""
        for event in events:
            if event.kind == "task_sent_back" and event.task is not None:
                self._notes[event.task] = str(event.data["reason"])
        fresh = [task for task in progress.tasks if self._seen.get(task.id) is not task]
        self._seen.update({task.id: task for task in fresh})
        nameless = []
        with self._changed:
            for task, wanted in _wanted(progress, fresh, self._notes):
                if not is_id(task.name):
                    nameless.append(task)
                elif self._wanted.get(task.name) != wanted:
                    self._wanted[task.name] = wanted
                    self._untold.pop(task.name, None)  # the newest goes last
                    self._untold[task.name] = _Untold(task=task.id, wanted=wanted)
            self._changed.notify()
        for task in nameless:
            self._report(task.id, f"bd would not take {task.name[:80]!r} for an id.")

    def close(self) -> None:
        """Tell what is untold, within a time; say so if something remains."""
        with self._changed:
            self._until = time.monotonic() + self._pace.farewell
            for one in self._untold.values():
                one.tries, one.due = 0, 0.0
            self._changed.notify()
        self._thread.join()
        if self._untold:
            names = ", ".join([*list(self._untold)[:3], *(["…"] if len(self._untold) > 3 else [])])
            log.warning(
                "bd is behind on %d issues (%s). %s `weft run --resume %s` tells it again.",
                len(self._untold),
                names,
                self._last_failure or "There was no time.",
                self._run,
            )

    def _work(self) -> None:
        while issues := self._next():
            try:
                with closing(Lock(self._lock)) as lock:
                    if lock.attempt():
                        self._tell(issues)
                    else:
                        self._rest(issues)
            except OSError as error:  # a disk that is full, a repository that is read-only
                self._fail(issues, f"bd was not called: {error}.")

    def _next(self) -> list[str]:
        """Wait for issues to tell of; none when all is told at the end, or time is over."""
        with self._changed:
            while True:
                now = time.monotonic()
                left = self._hopeful()
                if self._until is not None and (not left or self._is_over()):
                    return []
                due = [issue for issue, one in left.items() if one.due <= now]
                # One that failed goes alone: it may be what the others failed for.
                first = [one for one in due if not left[one].tries][:_TOGETHER] or due[:1]
                if first:
                    return first
                self._changed.wait(min(one.due for one in left.values()) - now if left else None)

    def _hopeful(self) -> dict[str, _Untold]:
        if self._until is None:
            return self._untold
        return {name: one for name, one in self._untold.items() if one.tries < _LAST_TRIES}

    def _rest(self, issues: list[str]) -> None:
        """Another process tells `bd` just now."""
        with self._changed:
            for issue in issues:
                self._untold[issue].due = time.monotonic() + self._pace.rest

    def _tell(self, issues: list[str]) -> None:
        try:
            shown = self._beads.show(issues, seconds=self._seconds())
        except BeadsError as error:
            self._fail(issues, str(error))
            return
        for issue in issues:
            if issue not in shown:
                self._fail([issue], f"bd knows no issue {issue}.")
            elif not self._is_over():
                self._tell_one(issue, shown[issue])

    def _tell_one(self, issue: str, shown: Shown) -> None:
        with self._changed:
            untold = self._untold[issue]
        try:
            self._beads.tell(issue, shown, untold.wanted, seconds=self._seconds())
        except BeadsError as error:
            self._fail([issue], str(error))
            return
        with self._changed:
            if self._untold[issue] is untold:  # nothing newer meanwhile
                del self._untold[issue]

    def _is_over(self) -> bool:
        return self._until is not None and time.monotonic() > self._until

    def _seconds(self) -> float:
        if self._until is None:
            return self._pace.call
        return max(0.1, min(self._pace.call, self._until - time.monotonic()))

    def _fail(self, issues: list[str], reason: str) -> None:
        with self._changed:
            failed = [self._untold[issue] for issue in issues if issue in self._untold]
            for one in failed:
                one.tries += 1
                one.due = time.monotonic() + min(_LONGEST, self._pace.rest * 2 ** (one.tries - 1))
        self._last_failure = reason
        if failed:
            self._report(failed[0].task, reason)

    def _report(self, task: int, reason: str) -> None:
        """Tell of each kind of failure once."""
        if reason in self._reported:
            return
        self._reported.add(reason)
        try:
            record_mirror_failure(self._store, self._run, task, reason=reason, now=time.time())
        except WeftError as error:
            log.warning("that bd could not be told is not recorded: %s", error)


def _wanted(
    progress: RunProgress, tasks: Iterable[Task], notes: dict[int, str]
) -> Iterable[tuple[Task, WantedStatus]]:
    """How the issues of tasks shall be; of what nobody has begun there is nothing to say."""
    tried = {one.task for one in progress.attempts}
    landed = progress.landed
    for task in tasks:
        if task.request.kind is TaskKind.BARRIER:
            continue
        note = notes.get(task.id, "")
        if task.state is State.DONE:
            commit = landed.get(task.id)
            where = f"landed as {commit[:12]} on weft" if commit else "done in run weft"
            yield task, WantedStatus(status=CLOSED, note=note, reason=f"{where}/{progress.run.id}")
        elif task.state in _ELSEWHERE:
            yield (
                task,
                WantedStatus(status=_ELSEWHERE[task.state], note=task.reason or task.state.value),
            )
        elif task.id in tried:
            # Ours until it has landed, also between two attempts: nobody else shall begin it.
            yield task, WantedStatus(status=IN_PROGRESS, note=note)
