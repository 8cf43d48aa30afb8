"""The workers that serve a repository."""

from __future__ import annotations

import time

from weft.model import Worker
from weft.process import process_table
from weft.process.process_identity import get_place
from weft.process.process_table import Process
from weft.store import Store
from weft.store.workers import list_serving


def is_served(store: Store, repo: str) -> bool:
    """Tell whether a living process takes the ready tasks of a repository and serves its gates.

    A killed process of this host does not count, even before the store knows of its death. A silent
    process, such as one stopped by Ctrl-Z, does not count either.
    """
    boot = get_place().boot
    workers = list_serving(store, repo, now=time.time())
    return any(worker.gates and _lives(worker, boot) for worker in workers)


def _lives(worker: Worker, boot: str) -> bool:
    if worker.silent_since is not None:
        return False
    return worker.boot != boot or not is_gone(worker)


def is_dead_here(worker: Worker) -> bool:
    """Tell whether a worker was a process of this host that has ended."""
    return worker.boot == get_place().boot and is_gone(worker)


def is_gone(worker: Worker) -> bool:
    """Tell whether the process of a worker of this host and boot has ended."""
    if worker.pid is None or worker.pid_start is None:
        return False
    return not process_table.is_alive(Process(worker.pid, int(worker.pid_start)))
