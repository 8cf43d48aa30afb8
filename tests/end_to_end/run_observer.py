"""An observer beside a run: samples rows and processes, and says what may never be seen."""

from __future__ import annotations

import threading
import time
from collections import Counter
from pathlib import Path

from end_to_end.run_project import RunProject
from observer import Observer, Picture
from wait_until import PATIENCE

ENOUGH = 3  # samples that must be passed before a watcher has seen a run


class Watcher:
    """Samples until it is left; `broken` says what it saw.

    It makes the file `go` when it has enough samples and has seen so many agents: those that
    wait for the file are seen.
    """

    def __init__(self, project: RunProject, *, go: Path | None = None, seen: int = 1) -> None:
        self._go = go
        self._seen = seen
        self.broken: list[str] = []
        self.samples = 0
        self.most: Counter[str] = Counter()  # of each resource that was ever seen in use
        self.agents: set[str] = set()  # attempts whose processes were seen
        self._yard = project
        self._enough = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watcher", daemon=True)

    def __enter__(self) -> Watcher:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._enough.set()
        self._thread.join(PATIENCE)

    def assert_saw_nothing(self) -> None:
        """Assert that agents were seen at work and that no sample broke an invariant."""
        assert self.samples > ENOUGH
        assert self.agents, "the watcher saw no agent at work, so it proves nothing"
        assert self.broken == []

    def _watch(self) -> None:
        observer = Observer(self._yard.url)
        try:
            while not self._enough.wait(0.25):
                self._look(Picture(observer.everything()))
        except Exception as error:  # noqa: BLE001 - an observer that cannot see must not be silent
            self.broken.append(f"the watcher saw nothing: {error!r}")
        finally:
            observer.close()

    def _look(self, picture: Picture) -> None:
        """The rows of one moment, then the processes as they are after it."""
        alive = self._yard.marked().values()
        found = [*picture.broken(), *picture.over(), *picture.unleased(alive)]
        self.broken += [f"{time.time():.2f}: {one}" for one in found]
        self.most |= Counter(picture.used)
        self.agents.update(name for name in alive if not name.startswith("check."))
        self.samples += 1
        if self._go is not None and self.samples > ENOUGH and len(self.agents) >= self._seen:
            self._go.touch()
