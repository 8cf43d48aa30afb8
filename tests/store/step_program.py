"""A process that does what it is told, one line at a time, and says what came of it.

Told `["finish", 7, "done", 3.0]`, it answers with the value as JSON, or with
`{"error": "StaleFence"}`. What it is told while it is stopped, it does when it is continued.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from store.life_locks import Signs
from weft.config import Tuning
from weft.errors import WeftError
from weft.model import NewWorker, Outcome, State
from weft.store import Store, open_store
from weft.store.admission import admit
from weft.store.attempt_end import finish
from weft.store.attempt_reports import report
from weft.store.database import Transaction
from weft.store.leases import extend, release, renew
from weft.store.workers import heartbeat, register


class StepWorker:
    def __init__(self) -> None:
        self._store: Store | None = None

    @property
    def store(self) -> Store:
        assert self._store is not None
        return self._store

    def live(self, directory: str, name: str) -> None:
        Signs(Path(directory)).live(name)

    def open(self, url: str, limits: dict[str, int]) -> None:
        self._store = open_store(url, tuning=Tuning(lease=1), limits=limits)

    def close(self) -> None:
        self.store.close()

    def register(self, settings: dict[str, Any], now: float) -> None:
        register(self.store, NewWorker(**settings), now=now, stated={})

    def heartbeat(self, worker: str, now: float) -> bool:
        return heartbeat(self.store, worker, now=now)

    def admit(self, worker: str, now: float) -> list[int]:
        return [grant.fence for grant in admit(self.store, worker, now=now)]

    def admit_all(self, worker: str, now: float) -> list[int]:
        """Everything it can get."""
        fences: list[int] = []
        while grants := self.admit(worker, now):
            fences += grants
        return fences

    def renew(self, fence: int, now: float) -> list[int]:
        return renew(self.store, [fence], now=now)

    def report(self, fence: int, now: float) -> None:
        report(self.store, fence, {"step": 1}, now=now)

    def extend(self, fence: int, file: str, now: float) -> dict[str, int]:
        return extend(self.store, fence, [file], now=now)

    def release(self, fence: int, now: float) -> bool:
        return release(self.store, fence, now=now)

    def finish(self, fence: int, state: str, now: float) -> str:
        return finish(self.store, fence, Outcome(state=State(state)), now=now)

    def note(self, what: str, now: float) -> None:
        self.store.write(lambda tx: tx.event(what, now=now))

    def stop_inside(self, what: str, now: float) -> int:
        """Stop in the middle of a write; answers how often that write was run."""
        times = 0

        def write(tx: Transaction) -> None:
            nonlocal times
            times += 1
            tx.event(what, now=now)
            tx.value("last_event")  # the answer proves that the database is inside as well
            tx.event(what, now=now)
            if times == 1:
                print(json.dumps("inside"), flush=True)  # noqa: T201
                os.kill(os.getpid(), signal.SIGSTOP)

        self.store.write(write)
        return times


def main() -> None:
    step_worker = StepWorker()
    for line in sys.stdin:
        verb, *words = json.loads(line)
        action: Callable[..., object] = getattr(step_worker, verb)
        try:
            answer = action(*words)
        except WeftError as error:
            answer = {"error": type(error).__name__}
        print(json.dumps(answer), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
