"""Locks that end with whoever holds them: nothing to expire, nothing to clean up after a death."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path


class Lock:
    """A lock that is held until every copy of its file number is closed, in whatever process."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._number = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def fileno(self) -> int:
        """The number to hand to a process that is to hold the lock too."""
        return self._number

    def wait(self) -> None:
        fcntl.flock(self._number, fcntl.LOCK_EX)

    def attempt(self) -> bool:
        try:
            fcntl.flock(self._number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def close(self) -> None:
        if self._number >= 0:
            number, self._number = self._number, -1
            os.close(number)


@contextlib.contextmanager
def handed_on(lock: Lock) -> Iterator[None]:
    """The lock goes to whoever called, unless something fails."""
    try:
        yield
    except BaseException:
        lock.close()
        raise
