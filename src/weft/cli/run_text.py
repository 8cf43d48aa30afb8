"""The lines of `weft run` while the run goes on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Final

from weft.candidate_records import UNCHECKED
from weft.formats import duration
from weft.model import Event, TaskKind
from weft.runs.event_text import About, Teller
from weft.runs.progress import RunProgress

Out = Callable[[str], None]

_FOR_ALL: Final = frozenset(
    {"agent_resumed", "agent_stopped", "drain_undone", "drained", "provider_penalised"}
)
"""Events of no run that hold up runs or let them go on."""
_KNOWN: Final = frozenset({"entry_queued", "run_ended", "run_started", "run_submitted"})
"""Events that follow from other lines, or that the user asked for."""


class RunLines:
    """A line for each event of a run, passed to `out`."""

    def __init__(self, run: str, out: Out, *, prefix: str = "") -> None:
        self._run = run
        self._out = out
        self._prefix = prefix
        self._names: dict[int, str] = {}
        self._titles: dict[int, str] = {}
        self._silent: set[int] = set()
        self._stories: set[int] = set()
        self._teller = Teller()
        self._began = time.monotonic()
        self._landed: set[int] = set()
        self._all = 0

    def know(self, progress: RunProgress) -> None:
        """Take the names and the landed tasks from the progress of the run."""
        self._landed |= progress.landed.keys()
        self.learn_names(progress)

    def learn_names(self, progress: RunProgress) -> None:
        """Take the names of tasks, also of those that were added since."""
        self._names = {task.id: task.name for task in progress.tasks}
        self._titles = {task.id: task.request.title for task in progress.tasks}
        kinds = {task.id: task.request.kind for task in progress.tasks}
        told_below = (TaskKind.STORY, TaskKind.ENTRANT)
        self._stories = {task for task, kind in kinds.items() if kind in told_below}
        self._silent = {task for task, kind in kinds.items() if kind is TaskKind.BARRIER}
        self._all = len(progress.work)

    def tell(self, events: Iterable[Event]) -> None:
        for event in events:
            if event.task not in self._silent and self._concerns(event):
                text = self._teller.line(event, self._about(event))
                if event.kind == "task_landed":
                    self._landed.add(event.task or 0)
                    text = f"{text} ({len(self._landed)}/{self._all})"
                if text:
                    self.note(text)

    def note(self, text: str) -> None:
        """Pass a line with the time since the start."""
        at = duration(time.monotonic() - self._began)
        self._out(f"[{at:>7}] {self._prefix}{text}")

    def _concerns(self, event: Event) -> bool:
        if event.run is None:
            return event.kind in _FOR_ALL
        if event.kind == "checked" and event.data["check_id"] == UNCHECKED:
            return False  # that there is no check was told before the run began
        if event.kind == "task_landed" and event.task in self._stories:
            return False  # its subtasks are told of, or the task of its team is
        return event.run == self._run and event.kind not in _KNOWN

    def _about(self, event: Event) -> About:
        task = event.task or 0
        return About(
            task=self._names.get(task, ""),
            title=self._titles.get(task, ""),
            naming=lambda number: self._names.get(number, str(number)),
        )
