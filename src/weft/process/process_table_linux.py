"""The process table as Linux shows it in /proc. Only the standard library is used."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator

from weft.process.process_identity import Process, ProcessView

_FIRST_FIELD = 3  # of /proc/PID/stat behind the name: the state
_PARENT, _SESSION, _START = 4 - _FIRST_FIELD, 6 - _FIRST_FIELD, 22 - _FIRST_FIELD
_KERNEL = 2  # the parent of all kernel threads
_DEAD = (b"Z", b"X")


def find_view(pid: int) -> ProcessView | None:
    data = _read(f"/proc/{pid}/stat")
    fields = data[data.rfind(b")") + 2 :].split()
    if not fields or fields[0] in _DEAD:
        return None
    return ProcessView(
        Process(pid, int(fields[_START])), int(fields[_PARENT]), int(fields[_SESSION])
    )


def list_living() -> Iterator[ProcessView]:
    """Yield all living processes except kernel threads, which are never ours."""
    for name in os.listdir("/proc"):
        if name.isdigit():
            seen = find_view(int(name))
            if seen is not None and seen.parent != _KERNEL:
                yield seen


def list_children(pid: int) -> list[int]:
    threads = f"/proc/{pid}/task"
    try:
        names = os.listdir(threads)
    except OSError:
        return []
    if not os.path.exists(f"{threads}/{pid}/children"):  # not every kernel is built with it
        return [seen.process.pid for seen in list_living() if seen.parent == pid]
    lists = (_read(f"{threads}/{name}/children") for name in names)
    return [int(child) for each in lists for child in each.split()]


def read_environment(pid: int) -> bytes:
    # In the middle of an exec the environment reads as empty for a moment.
    for _ in range(3):
        text = _read(f"/proc/{pid}/environ")
        if text:
            return text
        time.sleep(0.001)
    return b""


def has_open(pid: int, file: os.stat_result) -> bool:
    """Return whether a process keeps this file open for writing, as far as visible."""
    directory = f"/proc/{pid}/fd"
    try:
        names = os.listdir(directory)
    except OSError:
        return False
    return any(_is_file(f"{directory}/{name}", file) for name in names)


def _is_file(path: str, file: os.stat_result) -> bool:
    try:
        # The link itself is writable if the file was opened so.
        writes = os.lstat(path).st_mode & stat.S_IWUSR
        return bool(writes) and os.path.samestat(os.stat(path), file)
    except OSError:
        return False


def _read(path: str) -> bytes:
    """Read a file of /proc; empty if its process is gone or not ours to read."""
    try:
        with open(path, "rb", buffering=0) as file:
            return file.readall()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return b""
