"""The use of a mirror by the workers of a host: a mirror in use is neither collected nor deleted.

Each worker shares a lock while it has tasks or checks, or asks for them. The collection needs that
lock alone, so a worker that asks for a task meanwhile waits for its end. A second lock is shared
for the life of a worker: without it the mirror may be deleted.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from weft.workspace.locks import Lock

_USED: Final = "weft-use.lock"
_PRESENT: Final = "weft-present.lock"


class MirrorUse:
    """The locks of this process."""

    def __init__(self, mirror: Path) -> None:
        self._lock = Lock(mirror / _USED)
        self._present = Lock(mirror / _PRESENT)
        self._present.wait_shared()
        self._inode = os.fstat(self._present.fileno()).st_ino
        self._mirror = mirror
        self._turn = threading.Lock()
        self._users: set[str] = set()

    def is_there(self) -> bool:
        """Tell whether the mirror was not deleted before this process shared its lock."""
        try:
            there = (self._mirror / _PRESENT).stat()
        except FileNotFoundError:
            return False
        return there.st_ino == self._inode

    def hold(self, user: str) -> None:
        """Keep the mirror for a user, such as `tasks`; wait for the end of a collection."""
        with self._turn:
            if not self._users:
                self._lock.wait_shared()
                self._lock.sign()  # its time of change is that of the last use
            self._users.add(user)

    def drop(self, user: str) -> None:
        with self._turn:
            self._users.discard(user)
            if not self._users:
                self._lock.unlock()

    def close(self) -> None:
        self._lock.close()
        self._present.close()

    @contextmanager
    def alone(self) -> Iterator[bool]:
        """Have the mirror alone; yield False if a worker of this host uses it."""
        with self._turn:
            free = not self._users and self._lock.attempt()
            try:
                yield free
            finally:
                if free:
                    self._lock.unlock()


@contextmanager
def taking_mirror(mirror: Path) -> Iterator[bool]:
    """Have another mirror of this host alone; yield False if it has a worker."""
    with closing(Lock(mirror / _PRESENT)) as lock:
        yield lock.attempt()


def last_use(mirror: Path) -> float:
    """Return the time of the last use of a mirror; 0 if it was never used."""
    try:
        return (mirror / _USED).stat().st_mtime
    except OSError:
        return 0.0
