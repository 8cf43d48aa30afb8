"""Locks that end with the processes that hold them, so none has to expire or be cleaned up."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

INDEX_LOCK: Final = "index.lock"  # of git
OWN_LOCK: Final = "weft-land.lock"
"""The file that git's lock of the index is a link to, while `weft land` holds it."""

_PAUSE: Final = 0.01


class Lock:
    """A lock that is held until every copy of its file number is closed, in any process."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._number = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def fileno(self) -> int:
        """Return the file number that a child process inherits to hold the lock too."""
        return self._number

    def wait(self) -> None:
        fcntl.flock(self._number, fcntl.LOCK_EX)

    def wait_at_most(self, seconds: float) -> bool:
        end = time.monotonic() + seconds
        while not self.attempt():
            if time.monotonic() >= end:
                return False
            time.sleep(_PAUSE)
        return True

    def attempt(self) -> bool:
        try:
            fcntl.flock(self._number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def wait_shared(self) -> None:
        """Hold the lock together with other processes that share it."""
        fcntl.flock(self._number, fcntl.LOCK_SH)

    def unlock(self) -> None:
        fcntl.flock(self._number, fcntl.LOCK_UN)

    def sign(self) -> None:
        """Write this process's id into the lock's file, for processes that wait."""
        os.pwrite(self._number, f"{os.getpid():<20}".encode(), 0)

    def read_signature(self) -> str:
        """Return the id of the process that held the lock last."""
        return os.pread(self._number, 20, 0).decode(errors="replace").strip()

    def close(self) -> None:
        if self._number >= 0:
            number, self._number = self._number, -1
            os.close(number)


@contextlib.contextmanager
def handed_on(lock: Lock) -> Iterator[None]:
    """Leave the lock to the caller; close it on an error."""
    try:
        yield
    except BaseException:
        lock.close()
        raise


def land_lock(common: Path) -> Lock:
    """Return the lock that `weft land` holds while it works on a repository."""
    return Lock(common / "weft" / "land.lock")


def drop_index_lock(common: Path) -> None:
    """Remove git's lock of the index if a killed `weft land` left it."""
    own = common / OWN_LOCK
    if not own.exists():
        return
    with contextlib.closing(land_lock(common)) as lock, contextlib.suppress(FileNotFoundError):
        if lock.attempt():
            if os.path.samefile(own, common / INDEX_LOCK):
                (common / INDEX_LOCK).unlink()
            own.unlink()
