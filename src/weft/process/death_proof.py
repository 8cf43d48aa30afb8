"""The processes left of an attempt, and the proof that none is left.

Any of these shows that a process belongs to an attempt: it carries the marker, it holds the lock
file open for writing (a prover only reads it), it is in the control group, it is in the agent's
session while the agent leads it. Death is proved by all of: the lock is free, no process carries
the marker, the control group, if any, is empty. The proof seals the directory, so that an order
still on its way starts no agent afterwards.

Without a control group a process escapes notice if it lost its wrapper, closed all descriptors and
cleared its environment. Of processes of other users only root sees the environment.
"""

from __future__ import annotations

import errno
import os
import signal
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from weft.process import attempt_files, cgroup, process_table
from weft.process.container_end import end_container
from weft.process.process_identity import get_place
from weft.process.process_table import Process

LOST = "lost"
"""The reason in an exit record that a prover wrote, since the wrapper wrote none."""

_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})


def find_strays(directory: Path, marker: str) -> list[Process]:
    """Return all living processes of an attempt, its wrapper included."""
    lock = _find_file(directory / attempt_files.LOCK)
    leader = find_recorded(directory / attempt_files.AGENT)
    if leader is not None and not process_table.is_alive(leader):
        leader = None  # its session number may be another's by now
    group = find_group(directory)
    members = cgroup.list_members(group) if group else frozenset()
    return [
        seen.process
        for seen in process_table.list_living()
        if (pid := seen.process.pid) in members
        or process_table.find_mark(pid) == marker
        or (leader is not None and seen.session == leader.pid)
        or (lock is not None and pid != os.getpid() and process_table.has_open(pid, lock))
    ]


def is_proved_dead(directory: Path, marker: str) -> bool:
    return directory in prove_dead({directory: marker})


def prove_dead(attempts: Mapping[Path, str]) -> set[Path]:
    """Return the attempts, by directory and marker, that are dead for good.

    A single walk over the process table serves all of them.
    """
    locks: dict[Path, int] = {}
    try:
        for directory in attempts:
            lock = _take_lock(directory)
            if lock is not None:
                locks[directory] = lock
        marks = _living_marks() if locks else set()
        dead = {
            directory
            for directory in locks
            if attempts[directory] not in marks and _is_group_empty(directory)
        }
        return {directory for directory in dead if _seal(directory)}
    finally:
        for lock in locks.values():
            os.close(lock)


def end_unstarted(directory: Path, marker: str) -> None:
    """Kill the set-up of an attempt, known by its marker, before a wrapper has taken it up.

    No wrapper can start while this holds the lock, so it never hits an agent.
    """
    lock = _take_lock(directory)
    if lock is None:
        return
    try:
        if not (directory / attempt_files.WRAPPER).exists():
            for seen in process_table.list_living():
                if process_table.find_mark(seen.process.pid) == marker:
                    process_table.send_signal(seen.process, signal.SIGKILL)
    finally:
        os.close(lock)


def find_recorded(path: Path) -> Process | None:
    """Return the process that a record names."""
    record = attempt_files.find_record(str(path))
    return Process(record["pid"], record["start"]) if record else None


def find_group(directory: Path) -> str | None:
    record = attempt_files.find_record(str(directory / attempt_files.WRAPPER))
    group: str | None = record["cgroup"] if record else None
    return group


def _take_lock(directory: Path) -> int | None:
    """Return the attempt's lock, if its processes are visible from here and the lock is free."""
    directory.mkdir(parents=True, exist_ok=True)
    record = attempt_files.find_record(str(directory / attempt_files.ATTEMPT))
    if record is not None and record["boot"] != get_place().boot:
        return None
    return attempt_files.try_lock(str(directory))


def _living_marks() -> set[str]:
    # Twice: a process that forks and ends while the table is read may be missed.
    looks: Iterable[str | None] = (
        process_table.find_mark(seen.process.pid)
        for _ in range(2)
        for seen in process_table.list_living()
    )
    return {mark for mark in looks if mark is not None}


def _is_group_empty(directory: Path) -> bool:
    group = find_group(directory)
    if group is None:
        return True
    if not cgroup.is_empty(group):
        return False
    cgroup.remove(group)
    return True


def _seal(directory: Path) -> bool:
    """Seal the directory; return False, which leaves the death unproved, if the disk is full."""
    path = str(directory / attempt_files.EXIT)
    if os.path.exists(path):
        return True
    record = attempt_files.find_record(str(directory / attempt_files.ATTEMPT))
    if record is not None and not end_container(record.get("undo", ()), os.environ):
        return False
    try:
        attempt_files.write_record_durably(path, {"why": LOST, "at": time.time()})
    except OSError as error:
        if error.errno not in _NO_ROOM:
            raise
        return False
    return True


def _find_file(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except FileNotFoundError:
        return None
