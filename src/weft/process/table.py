"""The process table: who is whose child, who carries a mark, and signals that cannot go astray.

A process is a pid together with its start time, since pids are used again. Reads Linux's
/proc; where there is none, `table_psutil` gives the same answers. Only the standard library
is used here: the wrapper runs without any other.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from typing import NamedTuple

MARK = "WEFT_ATTEMPT_MARK"
"""The environment variable that every process of an attempt inherits."""

_FIRST_FIELD = 3  # of /proc/PID/stat behind the name: the state
_PARENT, _SESSION, _START = 4 - _FIRST_FIELD, 6 - _FIRST_FIELD, 22 - _FIRST_FIELD
_KERNEL = 2  # the parent of all kernel threads
_DEAD = (b"Z", b"X")


class Process(NamedTuple):
    pid: int
    start: int  # clock ticks after boot


class Seen(NamedTuple):
    """What one look at a living process showed."""

    process: Process
    parent: int
    session: int


def find_process(pid: int) -> Process | None:
    seen = _look(pid)
    return seen and seen.process


def get_own() -> Process:
    own = find_process(os.getpid())
    assert own is not None
    return own


def is_alive(process: Process) -> bool:
    return find_process(process.pid) == process


def send_signal(process: Process, number: int) -> bool:
    """Signal exactly this process; False if it is gone, whoever has its pid now."""
    try:
        handle = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return False
    try:
        # The handle stays with whom it was opened for: what is true now is true of it.
        if not is_alive(process):
            return False
        signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(handle)
    return True


def descendants(pid: int) -> list[Process]:
    """Everyone below this process, nearest first."""
    found: list[Process] = []
    queue = [pid]
    for parent in queue:
        for child in _children(parent):
            process = find_process(child)
            if process is not None:
                found.append(process)
                queue.append(child)
    return found


def everyone() -> Iterator[Seen]:
    """All living processes but kernel threads, of which none is ours."""
    for name in os.listdir("/proc"):
        if name.isdigit():
            seen = _look(int(name))
            if seen is not None and seen.parent != _KERNEL:
                yield seen


def mark_of(pid: int) -> str | None:
    """The mark in a process's environment, if it has one that we may read."""
    for text in _environment(pid).split(b"\0"):
        name, _, value = text.partition(b"=")
        if name == MARK.encode():
            return value.decode(errors="replace")
    return None


def has_open(pid: int, file: os.stat_result) -> bool:
    """Whether a process keeps this file open, as far as we may see."""
    directory = f"/proc/{pid}/fd"
    try:
        names = os.listdir(directory)
    except OSError:
        return False
    return any(_is_file(f"{directory}/{name}", file) for name in names)


def _is_file(path: str, file: os.stat_result) -> bool:
    try:
        return os.path.samestat(os.stat(path), file)
    except OSError:
        return False


def _look(pid: int) -> Seen | None:
    data = _read(f"/proc/{pid}/stat")
    fields = data[data.rfind(b")") + 2 :].split()
    if not fields or fields[0] in _DEAD:
        return None
    return Seen(Process(pid, int(fields[_START])), int(fields[_PARENT]), int(fields[_SESSION]))


def _children(pid: int) -> list[int]:
    threads = f"/proc/{pid}/task"
    try:
        names = os.listdir(threads)
    except OSError:
        return []
    if not os.path.exists(f"{threads}/{pid}/children"):  # not every kernel is built with it
        return [seen.process.pid for seen in everyone() if seen.parent == pid]
    lists = (_read(f"{threads}/{name}/children") for name in names)
    return [int(child) for each in lists for child in each.split()]


def _environment(pid: int) -> bytes:
    # In the middle of an exec the environment reads as empty for a moment.
    for _ in range(3):
        text = _read(f"/proc/{pid}/environ")
        if text:
            return text
        time.sleep(0.001)
    return b""


def _read(path: str) -> bytes:
    """A file of /proc, empty if its process is gone or not ours to read."""
    try:
        with open(path, "rb", buffering=0) as file:
            return file.readall()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return b""
