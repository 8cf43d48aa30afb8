"""The follower of a task: its agent's reports and its events, as lines for people."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from weft.cli.output import say
from weft.cli.poll_interval import ONE_TASK
from weft.cli.task_lines import list_advice
from weft.cli.worker_loops import look_on_there, serve
from weft.model import TERMINAL, Event, Grant, State
from weft.project.project import Project
from weft.runs.event_text import Teller, list_report_lines
from weft.store import Store
from weft.store.admission import admit_task
from weft.store.event_log import read_events
from weft.store.limit_table import list_stopped
from weft.store.probe import probe
from weft.store.tasks import cancel, get_task
from weft.worker.engine import Interrupted

_KNOWN: Final = frozenset({"task_submitted"})  # to the person who submitted the task
_PATIENCE: Final = 1.0  # seconds a task may wait before the reason is printed


class TaskFollower:
    """Prints the events of a task after event `after`, until it has ended or needs a person."""

    rhythm = ONE_TASK

    def __init__(self, store: Store, task: int, *, after: int, quiet: bool) -> None:
        self._store = store
        self._task = task
        self._after = after
        self._quiet = quiet
        self._teller = Teller()
        self._last_text = ""
        self._waits: list[str] = []  # printed last
        self._ready_since = time.monotonic()

    def look(self) -> bool:
        self.read()
        task = get_task(self._store, self._task)
        if task.state in TERMINAL or task.state is State.BLOCKED:
            self._tell_result(task.result)
            return True
        if task.state is State.READY and self._is_stopped(task.agent):
            self._say(f"✗ agent {task.agent} is stopped; `weft agents test {task.agent}` shows why")
            cancel(self._store, self._task, now=time.time(), reason="its agent is stopped")
            return True
        self._tell_waits(task.state)
        return False

    def read(self) -> None:
        """Print the new events."""
        while events := read_events(self._store, after=self._after):
            self._after = events[-1].id
            for event in events:
                if event.task == self._task:
                    self.tell(event)

    def _is_stopped(self, agent: str | None) -> bool:
        return agent in list_stopped(self._store, now=time.time())

    def _tell_waits(self, state: State) -> None:
        now = time.monotonic()
        if state not in (State.READY, State.PARKED):
            self._ready_since = now
        if now - self._ready_since < _PATIENCE:
            return
        waits = probe(self._store, self._task, now=time.time())
        reasons = [wait.text for wait in waits]
        if reasons and reasons != self._waits:
            self._say("… " + "; ".join(reasons))
            for advice in list_advice(waits, self._store.find_server):
                self._say(f"  {advice}")
        self._waits = reasons

    def _tell_result(self, result: str) -> None:
        """Print the result, unless it repeats the agent's last text."""
        if result.strip() and result.strip() != self._last_text.strip():
            for line in result.splitlines():
                self._say(f"  {line}")

    def tell(self, event: Event) -> None:
        for report in event.data.get("events", ()) if event.kind == "progress" else ():
            self._tell_report(report)
        text = self._teller.line(event) if event.kind not in _KNOWN else None
        if text:
            self._say(text)

    def _tell_report(self, report: Mapping[str, Any]) -> None:
        if report["type"] == "text":
            self._last_text = report["text"]
        for line in list_report_lines(report):
            self._say(f"  {line}")

    def _say(self, line: str) -> None:
        if not self._quiet:
            say(line)


def follow_to_end(project: Project, store: Store, task: int, follower: TaskFollower) -> int:
    """Serve and follow the task; return 130 if a person would not wait for its end."""

    def take(worker: str) -> Sequence[Grant]:
        return admit_task(store, worker, task, now=time.time())

    try:
        if project.server is None:
            serve(project, store, lambda _: follower, take=take)
        else:
            look_on_there(store, get_task(store, task).repo, follower)
    except Interrupted:
        cancel(store, task, now=time.time(), reason="interrupted")
        follower.read()
        return 130
    except BaseException:
        # The person has gone; without this, a later worker would do the task unasked.
        cancel(store, task, now=time.time(), reason="its command was ended")
        raise
    return 0
