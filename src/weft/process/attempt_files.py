"""The files of an attempt's directory, through which wrapper and weft talk, across crashes.

    attempt   marker, boot, grace and the command that ends its container; written before the start
    lock      held by the wrapper and all its descendants: a free lock means all have closed it
    stdin stdout stderr   of the agent; outputs only grow
    renewed   the boot time at which the last successful renewal of the lease was sent
    wrapper   pid and start time of the wrapper, and its control group
    agent     pid and start time of the agent
    exit      the end of the agent; written last, once all processes have ended
    fault     a traceback, should the wrapper itself be broken

Records are written beside and renamed, so that no reader sees half a record.
"""

from __future__ import annotations

import fcntl
import json
import os
from typing import Any

ATTEMPT, LOCK, RENEWED, FAULT = "attempt", "lock", "renewed", "fault"
STDIN, STDOUT, STDERR = "stdin", "stdout", "stderr"
WRAPPER, AGENT, EXIT = "wrapper", "agent", "exit"

Record = dict[str, Any]


def create_record(path: str, record: Record) -> None:
    """Write a record that must not be there yet; FileExistsError if it is."""
    beside = _write_beside(path, json.dumps(record).encode())
    try:
        os.link(beside, path)
    finally:
        os.unlink(beside)


def write_record(path: str, record: Record) -> None:
    os.replace(_write_beside(path, json.dumps(record).encode()), path)


def write_record_durably(path: str, record: Record) -> None:
    """Write a record to disk before this returns."""
    beside = _write_beside(path, json.dumps(record).encode())
    _sync(beside)
    os.replace(beside, path)
    _sync(os.path.dirname(path))


def find_record(path: str) -> Record | None:
    try:
        with open(path, "rb") as file:
            record: Record = json.load(file)
    except FileNotFoundError:
        return None
    return record


def take_lock(directory: str) -> int | None:
    """Return a descriptor that holds the attempt's lock, or None while another process holds it.

    It is open for writing, by which processes of the attempt are known.
    """
    return _lock(directory, os.O_RDWR)


def try_lock(directory: str) -> int | None:
    """Like `take_lock`, but for a process outside the attempt: open for reading only."""
    return _lock(directory, os.O_RDONLY)


def _lock(directory: str, mode: int) -> int | None:
    handle = os.open(os.path.join(directory, LOCK), mode | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        return None
    return handle


def _write_beside(path: str, data: bytes) -> str:
    beside = f"{path}.{os.getpid()}"
    handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        os.write(handle, data)
    except OSError:
        os.unlink(beside)
        raise
    finally:
        os.close(handle)
    return beside


def _sync(path: str) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
