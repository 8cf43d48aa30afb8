"""The keys of the live view: the chosen task, the open panel, and the answer to the last key."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from weft.cli.view.picture import Panel
from weft.errors import WeftError
from weft.model import HUMAN, TERMINAL, State, Task
from weft.operations.registry import ask
from weft.operations.steering import NamedAsked, RetryAsked, TaskAsked
from weft.project.project import Project
from weft.runs.attempt_output import TaskLog
from weft.runs.task_diff import get_diff
from weft.runs.tracker import RunTracker
from weft.store import Store
from weft.words import full_label

HELP: Final = (
    "↓ ↑ or j k   choose a task, or scroll",
    "l            logs of the task's agent",
    "d            diff of the task",
    "a            approve a task that asks you",
    "r            retry a task that needs you",
    "s            skip the task",
    "p            pause the task, or let it go on",
    "q            detach: leave the view, the run goes on",
    "?            this help; Esc closes it",
    "Ctrl-C       let running agents end, twice ends them",
)
HINT: Final = "↓↑ choose  l logs  d diff  a approve  r retry  s skip  p pause  q detach  ? help"
_LINES: Final = 500  # of a log or a diff that are kept
_REREAD: Final = 1.0  # seconds between two readings of a log
_ARROWS: Final = {"\x1b[A": "k", "\x1b[B": "j", "\x1bOA": "k", "\x1bOB": "j"}
_FIRST: Final = (State.BLOCKED, State.FAILED, State.READY, State.RUNNING, State.PAUSED)


class Controls:
    """The state that keys change. Operations act on the task that is chosen."""

    def __init__(self, project: Project, store: Store) -> None:
        self._project = project
        self._store = store
        self._chosen: int | None = None
        self._panel: Panel | None = None
        self._log_of: Task | None = None  # the task whose log the panel shows
        self._read_at = 0.0
        self.answer = ""  # to the last key
        self.leaves = False  # the person wants to leave the view
        self._operations: Mapping[str, Callable[[Task], None]] = {
            "a": lambda task: self._steer("approve", TaskAsked(task=task.id)),
            "r": lambda task: self._steer("retry", RetryAsked(task=task.id)),
            "s": lambda task: self._steer("skip", TaskAsked(task=task.id)),
            "p": lambda task: self._steer(
                "resume" if task.state is State.PAUSED else "pause", NamedAsked(name=task.id)
            ),
            "l": self._open_log,
            "d": self._open_diff,
        }

    def press(self, keys: str, tracks: Sequence[RunTracker]) -> None:
        """Act on the keys that were typed."""
        for sequence, key in _ARROWS.items():
            keys = keys.replace(sequence, key)
        tasks = list_choices(tracks)
        for key in keys:
            try:
                self._press(key, tasks)
            except WeftError as error:
                self.answer = str(error)

    def _press(self, key: str, tasks: Sequence[Task]) -> None:
        task = self.find_chosen(tasks)
        if key == "q":
            self.leaves = True
        elif key in ("?", "h"):
            self._panel, self._log_of = Panel(title="keys", lines=HELP), None
        elif key == "\x1b":
            self._panel, self._log_of = None, None
        elif key in ("j", "k"):
            self._move(1 if key == "j" else -1, tasks)
        elif key in self._operations and task is not None:
            self._operations[key](task)

    def find_chosen(self, tasks: Sequence[Task]) -> Task | None:
        """Return the chosen task, or the first if the chosen task is gone."""
        chosen = next((task for task in tasks if task.id == self._chosen), None)
        return chosen or next(iter(tasks), None)

    def _move(self, step: int, tasks: Sequence[Task]) -> None:
        if self._panel is not None:
            self._panel = self._panel.scroll(step)
            return
        task = self.find_chosen(tasks)
        if task is not None:
            place = [shown.id for shown in tasks].index(task.id)
            self._chosen = tasks[max(0, min(len(tasks) - 1, place + step))].id

    def _steer(self, operation: str, asked: Struct) -> None:
        self.answer = ask(self._project, self._store, operation, asked).text

    def _open_diff(self, task: Task) -> None:
        patch = get_diff(self._project, full_label(task)).patch.decode(errors="replace")
        lines = tuple(patch.splitlines()[:_LINES])
        self._panel, self._log_of = Panel(title=f"diff of {task.name}", lines=lines), None

    def _open_log(self, task: Task) -> None:
        self._log_of, self._read_at = task, 0.0

    def read_panel(self) -> Panel | None:
        """Return the open panel; a log is read again now and then."""
        now = time.monotonic()
        if self._log_of is not None and now >= self._read_at + _REREAD:
            self._read_at = now
            try:
                self._panel = self._read_log(self._log_of)
            except WeftError as error:
                self.answer, self._log_of = str(error), None
        return self._panel

    def _read_log(self, task: Task) -> Panel:
        log = TaskLog(
            project=self._project, store=self._store, task=task, stream="stdout", raw=False
        )
        lines = deque((line.text for line in log.read(log.get_attempt(None))), maxlen=_LINES)
        return Panel(title=f"logs of {task.name}", lines=tuple(lines), from_end=True)


def list_choices(tracks: Sequence[RunTracker]) -> list[Task]:
    """List the tasks that keys may act on: those that need a person first, then the rest."""
    tasks = [task for track in tracks for task in track.progress.work if _is_open(task)]
    return sorted(tasks, key=lambda task: (_rank(task), task.id))


def _is_open(task: Task) -> bool:
    return task.state not in TERMINAL or task.state is State.FAILED


def _rank(task: Task) -> int:
    if task.state is State.READY and task.agent != HUMAN:
        return len(_FIRST)
    return _FIRST.index(task.state) if task.state in _FIRST else len(_FIRST)
