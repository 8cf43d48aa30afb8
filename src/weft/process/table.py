"""The process table: who is whose child, who carries a mark, and signals that cannot go astray.

Only the standard library is used on Linux: the wrapper runs without any other there.
"""

from __future__ import annotations

import os
import signal
import sys

from weft.process.process_view import Process, ProcessView

if sys.platform == "linux":
    from weft.process.table_linux import children, environment, everyone, has_open, look
else:
    from weft.process.table_psutil import children, environment, everyone, has_open, look

__all__ = ["Process", "ProcessView", "everyone", "has_open"]

MARK = "WEFT_ATTEMPT_MARK"
"""The environment variable that every process of an attempt inherits."""


def find_process(pid: int) -> Process | None:
    seen = look(pid)
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
        if hasattr(os, "pidfd_open"):
            return _send_by_handle(process, number)
        if not is_alive(process):
            return False
        os.kill(process.pid, number)
    except ProcessLookupError:
        return False
    return True


def descendants(pid: int) -> list[Process]:
    """Everyone below this process, nearest first."""
    found: list[Process] = []
    queue = [pid]
    for parent in queue:
        for child in children(parent):
            process = find_process(child)
            if process is not None:
                found.append(process)
                queue.append(child)
    return found


def mark_of(pid: int) -> str | None:
    """The mark in a process's environment, if it has one that we may read."""
    for text in environment(pid).split(b"\0"):
        name, _, value = text.partition(b"=")
        if name == MARK.encode():
            return value.decode(errors="replace")
    return None


def _send_by_handle(process: Process, number: int) -> bool:
    handle = os.pidfd_open(process.pid)
    try:
        # The handle stays with whom it was opened for: what is true now is true of it.
        if not is_alive(process):
            return False
        signal.pidfd_send_signal(handle, number)
    finally:
        os.close(handle)
    return True
