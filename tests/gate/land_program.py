"""Forks processes that land a run, one per line of JSON, and prints how each ended."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

from gate.gate_run import HASTY
from gate.land_stage import land
from weft.store import open_store


def main() -> None:
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                os.close(1)
                os.open(os.devnull, os.O_WRONLY)
                land_and_die(json.loads(line))
                status = 0
            finally:
                sys.stderr.flush()
                os._exit(status)
        threading.Thread(target=tell_end, args=(pid,)).start()


def tell_end(pid: int) -> None:
    _, status = os.waitpid(pid, 0)
    sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
    sys.stdout.flush()


def land_and_die(order: dict[str, Any]) -> None:
    def at(point: str) -> None:
        if point == order.get("point"):
            os.kill(os.getpid(), signal.SIGKILL)

    with open_store(order["store"], tuning=HASTY) as store:
        land(Path(order["root"]), store, order.get("run"), onto=order.get("onto"), at=at)


if __name__ == "__main__":
    main()
