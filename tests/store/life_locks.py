"""Signs of life: locks that a process holds while it lives, and that nobody can forge.

A lock on a file ends with the last process that kept it open, however that process ended.
Everything here is a directory of such files: one per worker, one per attempt, and one per
thing (a port, a file) that two attempts must never use at once.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from urllib.parse import quote

from weft.model import Lease, Worker

# A dying process closes its descriptors from the lowest to the highest. Things go first, then
# the attempt, then the worker, so that whoever finds the last lock free finds all of them so.
_THING, _ATTEMPT, _WORKER = 40, 120, 200


class Signs:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)

    def _worker(self, worker: str) -> Path:
        return self.directory / f"worker-{quote(worker, safe='')}"

    def _attempt(self, task: int, number: int) -> Path:
        return self.directory / f"attempt-{task}-{number}"

    def live(self, worker: str) -> int:
        """Hold the lock of a worker; for its whole life, so nobody closes it."""
        return _hold(self._worker(worker), _WORKER, wait=True)

    def begin(self, task: int, number: int) -> int:
        """Hold the lock of an attempt; a child that inherits it holds it as well."""
        return _hold(self._attempt(task, number), _ATTEMPT, wait=True)

    def end(self, task: int, number: int, descriptor: int | None) -> None:
        self._attempt(task, number).unlink(missing_ok=True)
        if descriptor is not None:
            os.close(descriptor)

    def seize(self, resource: str) -> int:
        """Use a thing that only one may use; BlockingIOError if somebody else does."""
        path = self.directory / f"thing-{quote(resource, safe='')}"
        return _hold(path, _THING, wait=False)

    def lives(self, worker: str) -> bool:
        return _is_held(self._worker(worker))

    def goes_on(self, task: int, number: int) -> bool:
        return _is_held(self._attempt(task, number))

    def under_way(self) -> set[tuple[int, int]]:
        """The attempts that some process works on: task and number."""
        locks = set()
        for path in self.directory.glob("attempt-*"):
            _, task, number = path.name.split("-")
            if _is_held(path):
                locks.add((int(task), int(number)))
        return locks

    def prove_worker_dead(self, worker: Worker) -> str | None:
        return None if self.lives(worker.id) else "its lock is free"

    def prove_dead(self, lease: Lease) -> str | None:
        """The worker is looked at first: only a dead one starts no more children."""
        assert lease.worker is not None
        if self.lives(lease.worker):
            return None
        if lease.task is not None and lease.attempt is not None:
            if self.goes_on(lease.task, lease.attempt):
                return None
            self._attempt(lease.task, lease.attempt).unlink(missing_ok=True)
        return "no lock is held"


def _hold(path: Path, lowest: int, *, wait: bool) -> int:
    low = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    descriptor = fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, lowest)
    os.close(low)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _is_held(path: Path) -> bool:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        # Shared, so that several may look at once.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
