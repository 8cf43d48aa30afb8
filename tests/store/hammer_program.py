"""Processes that are killed in the middle of whatever they do, at random microseconds.

The program forks a brood and kills from it: a fork costs far less than a new interpreter, so
hundreds of deaths fit into a few seconds. A child whose parent is gone ends by itself.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from store.life_locks import Signs
from store.workload import LIMITS, TUNING, new_worker
from weft.model import Outcome, State
from weft.store import open_store
from weft.store.admission import admit
from weft.store.attempt_end import finish
from weft.store.leases import release
from weft.store.workers import register

BROOD = 3


class ChildProcesses:
    """Children that all do one thing until they are killed."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._alive: list[int] = []
        self._born = 0

    def fill(self, work: Callable[[str, random.Random], None]) -> None:
        while len(self._alive) < BROOD:
            self._born += 1
            name, seed = f"h{self._born}", self._rng.random()
            child = os.fork()
            if child == 0:
                _live(work, name, random.Random(seed))
            self._alive.append(child)

    def kill_one(self) -> None:
        victim = self._alive.pop(self._rng.randrange(len(self._alive)))
        os.kill(victim, signal.SIGKILL)
        _, status = os.waitpid(victim, 0)
        # It may have ended well before; with an error it may not.
        if os.waitstatus_to_exitcode(status) not in (0, -signal.SIGKILL):
            self.kill_all()
            sys.exit(f"a child ended with {os.waitstatus_to_exitcode(status)}")

    def kill_all(self) -> None:
        while self._alive:
            self.kill_one()


def _live(work: Callable[[str, random.Random], None], name: str, rng: random.Random) -> None:
    """A child's whole life; it never returns."""
    try:
        work(name, rng)
    except BaseException:  # noqa: BLE001 (the child must end here, whatever happened)
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def hammer(settings: dict[str, Any]) -> None:
    """Admit and finish as fast as they can, until so many were killed."""
    rng = random.Random(settings["seed"])
    signs = Signs(Path(settings["signs"]))
    parent = os.getpid()

    def work(name: str, own: random.Random) -> None:
        signs.live(name)
        with open_store(settings["url"], tuning=TUNING, limits=LIMITS) as store:
            register(
                store, new_worker(name, 2, pid=os.getpid(), pid_start=0), now=time.time(), stated={}
            )
            while os.getppid() == parent:
                for grant in admit(store, name, now=time.time()):
                    marker = signs.begin(grant.task, grant.attempt)
                    signs.end(grant.task, grant.attempt, marker)
                    if own.random() < 0.5:
                        release(store, grant.fence, now=time.time())
                    else:
                        state = own.choice([State.DONE, State.READY, State.READY])
                        kind = "success" if state is State.DONE else "crash"
                        finish(store, grant.fence, Outcome(state=state, kind=kind), now=time.time())

    children = ChildProcesses(rng)
    for _ in range(settings["kills"]):
        children.fill(work)
        time.sleep(rng.uniform(0, 0.04))
        children.kill_one()
    children.kill_all()


def found(settings: dict[str, Any]) -> None:
    """Open the store each line names; all who do are killed while they do."""
    rng = random.Random(settings["seed"])
    for line in sys.stdin:
        url = json.loads(line)[0]

        def work(_: str, __: random.Random, url: str = url) -> None:
            open_store(url, limits=LIMITS).close()

        children = ChildProcesses(rng)
        children.fill(work)
        for _ in range(BROOD):
            time.sleep(rng.uniform(0, 0.02))
            children.kill_one()
        print(json.dumps("killed"), flush=True)  # noqa: T201


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    {"hammer": hammer, "found": found}[given["role"]](given)
