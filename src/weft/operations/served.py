"""Whether somebody serves a repository's work already."""

from __future__ import annotations

import time

from weft.model import Worker
from weft.process import table
from weft.process.place import here
from weft.process.table import Process
from weft.store import Store
from weft.store.workers import list_serving


def is_served(store: Store, repo: str) -> bool:
    """Whether some living process takes what is ready in this repository.

    One of this host that was killed does not count, although the store has not been told yet:
    whoever tells it is a process that serves.
    """
    boot = here().boot
    return any(_lives(one, boot) for one in list_serving(store, repo, now=time.time()))


def _lives(worker: Worker, boot: str) -> bool:
    if worker.boot == boot and worker.pid is not None and worker.pid_start is not None:
        return table.is_alive(Process(worker.pid, int(worker.pid_start)))
    return worker.status != "offline"
