"""An observer beside a run: samples rows and processes, and says what may never be seen."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter

from observer import Observer, Picture
from patience import PATIENCE
from run.yard import Yard


class Watcher:
    """Samples until it is left; `broken` says what it saw."""

    def __init__(self, yard: Yard) -> None:
        self.broken: list[str] = []
        self.samples = 0
        self.most: Counter[str] = Counter()  # of each resource that was ever seen in use
        self._yard = yard
        self._enough = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watcher", daemon=True)

    def __enter__(self) -> Watcher:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._enough.set()
        self._thread.join(PATIENCE)

    def assert_saw_nothing(self) -> None:
        assert self.samples > 3
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
        found = [*picture.broken(), *self._over(picture), *self._unleased(picture)]
        self.broken += [f"{time.time():.2f}: {one}" for one in found]
        self.samples += 1

    def _over(self, picture: Picture) -> list[str]:
        used = picture.used
        fences = _adopted(picture)
        adopted = {row["worker"] for row in picture.open_leases if row["fence"] in fences}
        self.most |= Counter(used)
        return [
            f"1: {name} is used {amount} times, of {picture.limits[name]}"
            for name, amount in used.items()
            if amount > picture.limits.get(name, amount)
            and name.removeprefix("worker:") not in adopted
        ]

    def _unleased(self, picture: Picture) -> list[str]:
        """Attempts that the rows know and that have processes, but no lease."""
        begun = {f"{row['task']}.{row['number']}" for row in picture.tables["attempts"]}
        held = {f"{row['task']}.{row['attempt']}" for row in picture.open_leases}
        alive = set(self._yard.marked().values())
        return [f"6: attempt {one} runs without a lease" for one in (alive & begun) - held]


def _adopted(picture: Picture) -> set[int]:
    """Fences of adopted attempts: their worker may hold more than it has slots for."""
    return {
        json.loads(row["data"])["fence"]
        for row in picture.tables["events"]
        if row["kind"] == "attempt_adopted"
    }
