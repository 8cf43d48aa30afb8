"""Following one task: what its agent says and what becomes of it, as lines for people."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

from weft.cli.output import say
from weft.cli.rhythm import ONE_TASK
from weft.model import TERMINAL, Event, State
from weft.store import Store
from weft.store.agents import list_stopped
from weft.store.events import read_events
from weft.store.probe import probe
from weft.store.tasks import cancel, get_task

_PATIENCE: Final = 1.0  # seconds a task may wait before people are told what for


class Follower:
    """Prints what happens to a task, from an event on, until it has ended or needs a person."""

    rhythm = ONE_TASK

    def __init__(self, store: Store, task: int, *, after: int, quiet: bool) -> None:
        self._store = store
        self._task = task
        self._after = after
        self._quiet = quiet
        self._last_text = ""
        self._told: list[str] = []
        self._ready_since = time.monotonic()

    def look(self) -> bool:
        self.read()
        task = get_task(self._store, self._task)
        if task.state in TERMINAL or task.state is State.BLOCKED:
            self._tell_result(task.result)
            return True
        if task.state is State.READY and self._is_stopped(task.agent):
            self._say(f"✗ agent {task.agent} is stopped, for everybody, until it is mended")
            cancel(self._store, self._task, now=time.time(), reason="its agent is stopped")
            return True
        self._tell_waits(task.state)
        return False

    def read(self) -> None:
        """Print what is new."""
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
        reasons = [wait.text for wait in probe(self._store, self._task, now=time.time())]
        if reasons and reasons != self._told:
            self._say("… waits: " + "; ".join(reasons))
        self._told = reasons

    def _tell_result(self, result: str) -> None:
        """The answer, unless it was the last thing the agent said anyway."""
        if result.strip() and result.strip() != self._last_text.strip():
            self._text(result)

    def tell(self, event: Event) -> None:
        """Print one event of the task."""
        data = event.data
        match event.kind:
            case "task_admitted":
                self._say(f"▶ attempt {data['attempt']}")
            case "attempt_adopted":
                self._say("▶ goes on, adopted from a weft that is gone")
            case "progress":
                for said in data.get("events", ()):
                    self._agent(said)
                if "warning" in data:
                    self._say(f"! {data['warning']}")
            case "attempt_finished" if data["outcome"] != "success":
                self._say(f"✗ {data['outcome']}: {data['reason']} → {data['state']}")
            case "attempt_released":
                self._say(f"✗ handed back: {data['reason']}")

    def _agent(self, said: Mapping[str, Any]) -> None:
        match said["type"]:
            case "text":
                self._text(said["text"])
            case "tool":
                self._say(f"  → {said['name']} {said['detail']}".rstrip())
            case "rate_limit" | "retrying" | "error":
                self._say(f"  ! {said['type']}: {said['text']}")

    def _text(self, text: str) -> None:
        self._last_text = text
        for line in text.splitlines():
            self._say(f"  {line}")

    def _say(self, line: str) -> None:
        if not self._quiet:
            say(line)
