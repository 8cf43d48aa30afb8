"""The issue tracker: the `bd` issues that a plan was exported from follow its run.

The wanted status of each issue is derived from the run as it is, and compared with `bd show` before
`bd` is called to change it: a second holder repeats no change. A failed issue is tried again, each
time later, and neither stops the run nor delays other issues. Work that an agent reports becomes an
issue that was discovered from that of its task.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from msgspec import Struct

from weft.errors import WeftError
from weft.formats import count, duration, listed
from weft.model import BELOW_TEAM, Attempt, Event, State, Task, TaskKind
from weft.plan.beads import OWN_ACTOR, is_bead
from weft.runs.progress import RunProgress
from weft.store import Store
from weft.store.event_log import list_of_kind, record_mirror_failure
from weft.store.tasks import list_run_edges
from weft.worker.projections import News
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

_UNKNOWN: Final = re.compile("no issue|not found")  # in the message of a `bd show` that failed
_SENT_BACK: Final = "task_sent_back"
_WORK_REPORTED: Final = "work_reported"
_TOGETHER: Final = 50  # issues `bd` is asked about at once
_LONGEST: Final = 60.0  # seconds before a call is made again
_LOCK_PAUSE: Final = 0.05  # seconds between two tries to lock
_ELSEWHERE: Final = {
    State.BLOCKED: BLOCKED,
    State.FAILED: BLOCKED,
    State.CANCELLED: OPEN,
    State.EVICTED: OPEN,
    State.SKIPPED: OPEN,
}


class Pace(Struct, frozen=True, kw_only=True):
    call: float = 15.0  # seconds a call may take, and a wait for another process's calls
    rest: float = 0.5  # seconds before a failed call is repeated; twice as many each time


class _Untold(Struct, kw_only=True):
    """An issue that `bd` has to be told about."""

    task: int
    wanted: WantedStatus
    tries: int = 0
    due: float = 0.0


class IssueTracker:
    """The issues of a run. Keeps in memory the statuses that `bd` has stored."""

    def __init__(
        self,
        beads: Beads,
        store: Store,
        run: str,
        *,
        lock: Path,
        pace: Pace | None = None,
        beside: bool = False,
    ) -> None:
        """Follow a run; `beside`: of a plan.md, in which only some tasks carry ids of issues."""
        self._beads = beads
        self._store = store
        self._run = run
        self._lock = lock  # a single process at a time calls `bd` for the repository
        self._pace = pace or Pace()
        self._beside = beside
        self._strangers: set[str] = set()  # ids of the author's own, which `bd` does not know
        self._found: dict[int, Event] | None = None  # reported work that `bd` may not have
        self._seen: dict[int, Task] = {}
        self._notes: dict[int, str] | None = None  # why tasks were sent back, once read
        self._wanted: dict[str, WantedStatus] = {}
        self._untold: dict[str, _Untold] = {}
        self._reported: set[str] = set()
        self._last_failure = ""

    def wants(self, progress: RunProgress, changed: bool) -> bool:
        return changed

    def apply(self, news: News) -> tuple[()]:
        """Pass changed statuses to `bd`; raise BeadsError if it is behind afterwards."""
        self._take_in(news)
        at_the_end = news.progress.ended or news.deadline < float("inf")
        now = time.monotonic()
        due = [name for name, issue in self._untold.items() if at_the_end or issue.due <= now]
        fresh = [name for name in due if not self._untold[name].tries]
        batches = [fresh[n : n + _TOGETHER] for n in range(0, len(fresh), _TOGETHER)]
        # An issue that failed goes alone: it may be the reason why its batch failed.
        batches += [[name] for name in due if self._untold[name].tries]
        for batch in batches:
            if time.monotonic() < news.deadline:
                self._tell_locked(batch, news)
        self._create_found(news)
        if self._found:
            raise BeadsError(f"bd has no issue for reported work: {self._last_failure}")
        if self._untold:
            names = ", ".join([*list(self._untold)[:3], *(["…"] if len(self._untold) > 3 else [])])
            raise BeadsError(
                f"bd is behind on {len(self._untold)} issues ({names}). "
                f"{self._last_failure or 'There was no time.'} "
                f"`weft run --resume {self._run}` tells it again."
            )
        return ()

    def _take_in(self, news: News) -> None:
        """Find the issues whose wanted status has changed."""
        notes = self._update_notes(news.events)
        if self._found is None:
            self._found = {}
            news_of_work = list_of_kind(self._store, self._run, _WORK_REPORTED)
        else:
            news_of_work = [event for event in news.events if event.kind == _WORK_REPORTED]
        self._found.update({event.id: event for event in news_of_work})
        fresh = [task for task in news.progress.tasks if self._seen.get(task.id) is not task]
        self._seen.update({task.id: task for task in fresh})
        epics = [task for task in fresh if task.request.kind is TaskKind.STORY]
        edges = list_run_edges(self._store, self._run) if any(map(_is_done, epics)) else []
        for task, wanted in _wanted(news.progress, fresh, notes, edges):
            if self._beside and (task.name in self._strangers or not is_bead(task.name)):
                continue
            if not is_id(task.name):
                self._report(task.id, f"bd would not take {task.name[:80]!r} for an id.")
            elif self._wanted.get(task.name) != wanted:
                self._wanted[task.name] = wanted
                self._untold[task.name] = _Untold(task=task.id, wanted=wanted)

    def _update_notes(self, events: Sequence[Event]) -> dict[int, str]:
        """Note why tasks were sent back; the first time read all reasons, also those that an
        earlier holder has handled."""
        if self._notes is None:
            self._notes = {}
            events = list_of_kind(self._store, self._run, _SENT_BACK)
        for event in events:
            if event.kind == _SENT_BACK and event.task is not None:
                self._notes[event.task] = str(event.data["reason"])
        return self._notes

    def _tell_locked(self, issues: list[str], news: News) -> None:
        try:
            with _locked(self._lock, self._seconds(news)) as alone:
                news.confirm()
                if alone:
                    self._tell(issues, news)
                else:
                    self._fail(issues, "Another process calls bd all the time.")
        except OSError as error:  # a disk that is full, a repository that is read-only
            self._fail(issues, f"bd was not called: {error}.")

    def _tell(self, issues: list[str], news: News) -> None:
        try:
            shown = self._beads.show(issues, seconds=self._seconds(news))
        except BeadsError as error:
            if not (self._beside and len(issues) == 1 and _UNKNOWN.search(str(error))):
                self._fail(issues, str(error))
                return
            shown = {}
        for issue in issues:
            if issue not in shown and self._beside:
                self._strangers.add(issue)
                del self._untold[issue], self._wanted[issue]
            elif issue not in shown:
                self._fail([issue], f"bd knows no issue {issue}.")
            elif time.monotonic() < news.deadline:
                news.confirm()
                self._tell_issue(issue, shown[issue], self._seconds(news))

    def _tell_issue(self, issue: str, shown: Shown, seconds: float) -> None:
        try:
            self._beads.tell(issue, shown, self._untold[issue].wanted, seconds=seconds)
        except BeadsError as error:
            self._fail([issue], str(error))
        else:
            del self._untold[issue]

    def _create_found(self, news: News) -> None:
        """Create an issue for each piece of reported work; those that fail are left for later."""
        waiting = self._found or {}
        for id, event in list(waiting.items()):
            task = self._seen.get(event.task or 0)
            if task is None or task.name not in self._wanted:  # has no issue
                del waiting[id]
                continue
            if time.monotonic() >= news.deadline:
                return
            work, text = str(event.data["work"]), str(event.data["text"])
            try:
                with _locked(self._lock, self._seconds(news)) as alone:
                    news.confirm()
                    if alone:
                        self._beads.discover(task.name, work, text, seconds=self._seconds(news))
                        del waiting[id]
            except (BeadsError, OSError) as error:
                self._last_failure = str(error)
                self._report(task.id, str(error))

    def _seconds(self, news: News) -> float:
        return max(0.1, min(self._pace.call, news.deadline - time.monotonic()))

    def _fail(self, issues: list[str], reason: str) -> None:
        for name in issues:
            issue = self._untold[name]
            issue.tries += 1
            issue.due = time.monotonic() + min(_LONGEST, self._pace.rest * 2 ** (issue.tries - 1))
        self._last_failure = reason
        self._report(self._untold[issues[0]].task, reason)

    def _report(self, task: int, reason: str) -> None:
        """Record each kind of failure once."""
        if reason in self._reported:
            return
        self._reported.add(reason)
        try:
            record_mirror_failure(self._store, self._run, task, reason=reason, now=time.time())
        except WeftError as error:
            log.warning("could not record a failure of bd: %s", error)


@contextmanager
def _locked(path: Path, seconds: float) -> Iterator[bool]:
    """Hold the lock for the block; yield False if another process held it all the time."""
    until = time.monotonic() + seconds
    with closing(Lock(path)) as lock:
        while not (held := lock.attempt()) and time.monotonic() < until:
            time.sleep(_LOCK_PAUSE)
        yield held


def _is_done(task: Task) -> bool:
    return task.state is State.DONE


def _wanted(
    progress: RunProgress,
    tasks: Iterable[Task],
    notes: dict[int, str],
    edges: Sequence[tuple[int, int]],
) -> Iterable[tuple[Task, WantedStatus]]:
    """Derive the wanted status of the tasks' issues; issues of untried tasks are left alone."""
    last = {attempt.task: attempt for attempt in progress.attempts}
    landed = progress.landed
    for task in tasks:
        if task.request.kind in (TaskKind.BARRIER, *BELOW_TEAM):
            continue
        attempt = last.get(task.id)
        note = notes.get(task.id, "")
        if _is_done(task):
            commit = landed.get(task.id)
            where = f"landed as {commit[:12]} on weft" if commit else "done in run weft"
            if task.request.kind is TaskKind.STORY:
                parts = {needs for task_id, needs in edges if task_id == task.id}
                parts |= {each.id for each in progress.tasks if each.story == task.id}
                note = _describe_parts(len(parts), [c for id, c in landed.items() if id in parts])
            elif attempt is not None:
                note = f"{note}\n{_describe_attempt(task, attempt, commit)}"
            yield task, WantedStatus(status=CLOSED, note=note, reason=f"{where}/{progress.run.id}")
        elif task.state in _ELSEWHERE:
            yield (
                task,
                WantedStatus(status=_ELSEWHERE[task.state], note=task.reason or task.state.value),
            )
        elif attempt is not None:
            # Also between two attempts, so that no person begins it before it has landed.
            yield (
                task,
                WantedStatus(
                    status=IN_PROGRESS,
                    note=f"{note}\n{_describe_attempt(task, attempt, None)}",
                    assignee=f"{OWN_ACTOR}/{attempt.worker}",
                ),
            )


def _describe_attempt(task: Task, attempt: Attempt, commit: str | None) -> str:
    """Describe the latest attempt; the text changes at its start and at the task's end alone."""
    start = datetime.fromtimestamp(int(attempt.started), UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    files = f"; files: {listed(task.files)}" if task.files else ""
    if not _is_done(task) or attempt.ended is None:
        return f"worker {attempt.worker} started {start}{files}"
    took = duration(attempt.ended - attempt.started)
    end = f"; commit {commit[:12]}" if commit else ""
    return f"worker {attempt.worker} started {start}, took {took}{files}{end}"


def _describe_parts(parts: int, commits: Sequence[str]) -> str:
    shas = f"; commits: {listed([commit[:12] for commit in dict.fromkeys(commits)])}"
    return f"complete: {count(parts, 'task')}{shas if commits else ''}"
