"""Workers at work while others kill, stop and continue them at random."""

from __future__ import annotations

import itertools
import random
import time
from collections import Counter

from store.database_observer import Ask
from store.worker_processes import Member, StoreProcesses
from store.workload import TUNING

_DEPARTED = "SELECT id FROM workers WHERE departed IS NOT NULL"
_BUSY = "SELECT DISTINCT worker FROM leases WHERE state <> 'released' AND worker IS NOT NULL"
STALL = 45.0  # nothing happens for so long although nobody is stopped; the machine may be slow


class Storm:
    """Keeps so many workers and two reapers going, whatever it does to them."""

    def __init__(
        self, ask: Ask, processes: StoreProcesses, rng: random.Random, **settings: str
    ) -> None:
        self.done: Counter[str] = Counter()  # what was done to whom, for the record
        self._ask = ask
        self._crew = processes
        self._rng = rng
        self._settings = settings
        self._hired = 0
        self._workers: dict[str, Member] = {}
        self._reapers: list[Member] = []
        self._stopped: dict[str, float] = {}  # since when
        self._happened = (-1, time.monotonic())  # the latest event, and when it was seen

    def rage(self, *, workers: int, actions: int) -> None:
        """Spread the actions over the work; return when all work is done and all have left."""
        total = self._tasks("TRUE")
        left = self._plan(actions)
        for _ in range(workers):
            self._hire()
        while len(self._reapers) < 2:
            self._start_reaper()
        while self._workers:
            self._refuse_to_stall()
            finished = self._tasks("state = 'done'")
            self._bury(replace=finished < total)
            if left and total * (actions - len(left)) // actions <= finished < total:
                self._act(left.pop())
            self._continue(everybody=finished == total)
            time.sleep(0.03)

    def _plan(self, actions: int) -> list[str]:
        some = itertools.cycle(["kill", "stop", "kill", "stop", "kill", "kill a reaper"])
        plan = list(itertools.islice(some, actions))
        self._rng.shuffle(plan)
        return plan

    def _refuse_to_stall(self) -> None:
        [row] = self._ask("SELECT MAX(id) AS last FROM events")
        last, since = self._happened
        if row["last"] != last or self._stopped:
            self._happened = (row["last"], time.monotonic())
        elif time.monotonic() - since > STALL:
            unfinished = self._ask(
                "SELECT id, state, aside, files, demand FROM tasks WHERE state <> 'done'"
            )
            held = self._ask("SELECT * FROM leases WHERE state <> 'released'")
            held += self._ask("SELECT * FROM claims") + self._ask("SELECT * FROM reservation")
            report = "\n".join(map(str, [*unfinished, "held:", *held]))
            raise AssertionError(f"nothing happens any more, and this is left:\n{report}")

    def _tasks(self, condition: str) -> int:
        [row] = self._ask(f"SELECT COUNT(*) AS n FROM tasks WHERE {condition}")
        return int(row["n"])

    def _hire(self) -> None:
        self._hired += 1
        name = f"w{self._hired}"
        self._workers[name] = self._crew.start(
            "worker_program",
            role="work",
            name=name,
            seed=self._rng.randrange(2**32),
            slots=1 if self._hired % 4 == 0 else 2,
            **self._settings,
        )

    def _start_reaper(self) -> None:
        self._reapers.append(self._crew.start("worker_program", role="reap", **self._settings))

    def _bury(self, *, replace: bool) -> None:
        """Replace who has left. Nobody ends in another way but by our hand."""
        gone = {row["id"] for row in self._ask(_DEPARTED)}
        for name, worker in list(self._workers.items()):
            assert worker.process.poll() in (None, 0), worker.complaint()
            if name in gone:
                del self._workers[name]
                self.done["left"] += 1
                if replace:
                    self._hire()
        for reaper in self._reapers:
            assert reaper.process.poll() is None, reaper.complaint()

    def _act(self, action: str) -> None:
        self.done[action] += 1
        if action == "kill a reaper":
            self._reapers.pop(0).kill()
            self._start_reaper()
            return
        name = self._stop_somebody()
        if action == "kill":
            self._workers.pop(name).kill()
            del self._stopped[name]
            self._hire()

    def _stop_somebody(self) -> str:
        """Somebody in the middle of an attempt, or mostly so: between two looks it may end."""
        for _ in range(self._rng.choice([1, 10])):
            busy = self._busy() & self._workers.keys() - self._stopped.keys()
            name = self._rng.choice(sorted(busy or self._workers.keys()))
            self._workers[name].stop()
            if name in self._stopped or name in self._busy():
                break
            self._workers[name].go_on()
        self._workers[name].stop()
        self._stopped.setdefault(name, time.monotonic())
        return name

    def _busy(self) -> set[str]:
        return {str(row["worker"]) for row in self._ask(_BUSY)}

    def _continue(self, *, everybody: bool) -> None:
        for name, since in list(self._stopped.items()):
            if everybody or self._is_long_enough(name, time.monotonic() - since):
                del self._stopped[name]
                if name in self._workers:
                    self._workers[name].go_on()

    def _is_long_enough(self, name: str, seconds: float) -> bool:
        """Its leases are suspect; or it may have none, or have the database locked."""
        if seconds > 2 * TUNING.lease:
            return True
        states = {
            row["state"]
            for row in self._ask(
                f"SELECT state FROM leases WHERE worker = '{name}' AND state <> 'released'"
            )
        }
        if states == {"suspect"}:
            self.done["outlasted its lease"] += 1
            return True
        return not states and seconds > TUNING.lease / 2
