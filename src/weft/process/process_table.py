"""The process table: children, marks, and signals that cannot hit a reused pid.

On Linux it needs only the standard library, since the wrapper runs without packages.
"""

from __future__ import annotations

import os
import signal
import sys

from weft.process.process_identity import Process, ProcessView

if sys.platform == "linux":
    from weft.process import process_table_linux as platform_table
else:
    from weft.process import process_table_psutil as platform_table

__all__ = ["Process", "ProcessView"]

has_open = platform_table.has_open
list_living = platform_table.list_living

MARK = "WEFT_ATTEMPT_MARK"
"""The environment variable that every process of an attempt inherits."""


def find_process(pid: int) -> Process | None:
    seen = platform_table.find_view(pid)
    return seen and seen.process


def get_own() -> Process:
    own = find_process(os.getpid())
    assert own is not None
    return own


def is_alive(process: Process) -> bool:
    return find_process(process.pid) == process


def send_signal(process: Process, number: int) -> bool:
    """Signal exactly this process; return False if it is gone, even if its pid was reused."""
    try:
        if hasattr(os, "pidfd_open"):
            return _send_by_handle(process, number)
        if not is_alive(process):
            return False
        os.kill(process.pid, number)
    except ProcessLookupError:
        return False
    return True


def list_descendants(pid: int) -> list[Process]:
    """Return all processes below this process, nearest first."""
    processes: list[Process] = []
    queue = [pid]
    for parent in queue:
        for child in platform_table.list_children(parent):
            process = find_process(child)
            if process is not None:
                processes.append(process)
                queue.append(child)
    return processes


def find_mark(pid: int) -> str | None:
    """Return the mark in the environment of a process, if it is readable."""
    for text in platform_table.read_environment(pid).split(b"\0"):
        name, _, value = text.partition(b"=")
        if name == MARK.encode():
            return value.decode(errors="replace")
    return None


def _send_by_handle(process: Process, number: int) -> bool:
    handle = os.pidfd_open(process.pid)
    try:
        # The handle keeps its process; if that is alive now, the handle is the right process.
        if not is_alive(process):
            return False
        signal.pidfd_send_signal(handle, number)
    finally:
        os.close(handle)
    return True
