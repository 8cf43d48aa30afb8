"""The file of a SQLite store, before SQLite opens it: private to its owner, and known to be weft's.

POSIX drops every lock that a process has on a file as soon as the process closes any descriptor of
that file. If the header were read while a connection of this process is open, that connection would
lose its locks, and another process that closes the store would delete the log it still writes to.
So a file that is already open here is not read again.
"""

from __future__ import annotations

import os
import struct
import threading
import weakref
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from weft.errors import ForeignStore, StoreError

APPLICATION_ID: Final = 0x77656674  # "weft", in the header field for a file's type
_HEADER: Final = struct.Struct(">16s52xI")  # magic, …, application id at offset 68

_File = tuple[int, int]  # device and inode
_open: Counter[_File] = Counter()
_lock = threading.RLock()  # reentrant: the garbage collector may call `_forget` at any moment


class StoreFile:
    """A store's file, from before it is opened until after it is closed."""

    def __init__(self, path: Path) -> None:
        """Create a missing file; refuse a file of another program without changing it."""
        with _lock, _explained(path):
            _create(path)
            status = path.stat()
            file = (status.st_dev, status.st_ino)
            # Empty: new, or just created by another process.
            self.is_new = status.st_size == 0
            if not _open[file] and not self.is_new:
                _refuse_foreign(path)
            _open[file] += 1
        self.close = weakref.finalize(self, _forget, file)


def _forget(file: _File) -> None:
    with _lock:
        _open[file] -= 1
        if not _open[file]:
            del _open[file]  # another file may get its number


def _create(path: Path) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with suppress(FileExistsError):
        # SQLite gives its log the same permissions.
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        os.close(os.open(os.path.realpath(path), flags, 0o600))


def _refuse_foreign(path: Path) -> None:
    with path.open("rb") as file:
        head = file.read(_HEADER.size)
    with suppress(struct.error):
        magic, application = _HEADER.unpack(head)
        if magic == b"SQLite format 3\0" and application == APPLICATION_ID:
            return
    raise ForeignStore(
        f"{path} is not a weft store; move it away, or name another store with WEFT_STORE."
    )


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreError(f"Cannot open the store {path}: {error.strerror}.") from error
