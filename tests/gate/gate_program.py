"""Forks processes that hold gates, one per line of JSON, and says their pids.

A gate may be told to come to grief at one of its fault points: the process is killed or stopped
there, by its own hand, and a note says so.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import anyio

from weft.config import BoxKind, Config, GateSettings, Tuning
from weft.gate.gate_loop import Gate
from weft.store import open_store
from weft.worker.engine import Interrupted, open_site, serving

_SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}


def main() -> None:
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.close(1)
            os.open(os.devnull, os.O_WRONLY)
            status = 1
            try:
                anyio.run(serve, json.loads(line))
                status = 0
            finally:
                sys.stderr.flush()
                os._exit(status)
        sys.stdout.write(f"{pid}\n")
        sys.stdout.flush()


async def serve(spec: dict[str, Any]) -> None:
    note = Path(spec["note"])
    left = spec.get("nth", 1)

    gate: dict[str, Any] = {
        name: tuple(one) if isinstance(one, list) else one for name, one in spec["gate"].items()
    }
    tuning = Tuning(**spec["tuning"])
    config = Config(gate=GateSettings(**{"sandbox": BoxKind.OFF, **gate}), tuning=tuning)
    with (
        open_store(spec["store"], tuning=tuning) as store,
        open_site(store, Path(spec["root"]), config, dict(os.environ)) as site,
    ):

        def act() -> None:
            tell(note, spec["action"])
            os.kill(os.getpid(), _SIGNALS[spec["action"]])
            time.sleep(0.2)  # it may come to the other threads first

        def at(point: str) -> None:
            nonlocal left
            if point == spec.get("point"):
                left -= 1
                if left == 0:
                    # A reader keeps the other threads from writing: stopped in mid-transaction,
                    # they would keep every process from SQLite.
                    store.database.read(lambda _: act())

        try:
            async with (
                serving(site, slots=1, take=lambda worker: ()) as scheduler,
                anyio.create_task_group() as group,
            ):
                await anyio.sleep(0)  # for whoever obeys signals to begin
                note.with_suffix(".up").touch()
                for run in spec["runs"]:
                    group.start_soon(hold, Gate(site, scheduler.worker, run, at=at), store)
        except Interrupted:
            pass
    tell(note, "left")


def tell(note: Path, what: str) -> None:
    """Whole or not at all: somebody waits for it."""
    beside = note.with_suffix(".new")
    beside.write_text(what)
    beside.rename(note)


async def hold(gate: Gate, store: Any) -> None:
    with store.listen("work") as listener:
        await gate.serve(listener)


if __name__ == "__main__":
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    main()
