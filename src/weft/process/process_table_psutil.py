"""The process table where there is no /proc to read, by psutil, with the same answers."""

from __future__ import annotations

import os
from collections.abc import Iterator

import psutil

from weft.process.process_identity import Process, ProcessView

_HIDDEN = (psutil.Error, OSError)  # gone, or not ours to look at


def find_view(pid: int) -> ProcessView | None:
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        start = int(process.create_time() * 100)
        return ProcessView(Process(pid, start), process.ppid(), os.getsid(pid))
    except _HIDDEN:
        return None


def list_living() -> Iterator[ProcessView]:
    return (seen for pid in psutil.pids() if (seen := find_view(pid)) is not None)


def list_children(pid: int) -> list[int]:
    try:
        return [child.pid for child in psutil.Process(pid).children()]
    except _HIDDEN:
        return []


def read_environment(pid: int) -> bytes:
    try:
        variables = psutil.Process(pid).environ()
    except _HIDDEN:
        return b""
    return b"\0".join(os.fsencode(f"{name}={value}") for name, value in variables.items())


def has_open(pid: int, file: os.stat_result) -> bool:
    """Return whether a process keeps this file open, as far as visible."""
    try:
        return any(
            os.path.samestat(os.stat(entry.path), file)
            for entry in psutil.Process(pid).open_files()
        )
    except _HIDDEN:
        return False
