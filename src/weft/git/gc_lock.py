"""git's own lock of `git gc`, held while weft makes objects that no reference reaches yet.

A `git gc --prune=now` deletes every such object, and `git gc` refuses to run while `gc.pid` in the
git directory names a living process of this host and is younger than twelve hours. git and weft
ignore the lock of a dead process. `git prune` and `git gc --force` ignore every lock: commits that
a reference reaches are checked after the end of all that run (`wait_for_collectors`).
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import threading
import time
from pathlib import Path
from typing import Final

from weft.errors import WeftError
from weft.git.git_command import check_output
from weft.process import process_table

log = logging.getLogger(__name__)

_SECONDS: Final = 60.0  # wait for a running `git gc`
_PAUSE: Final = 0.2
_TAKING: Final = 1.0  # seconds for which a living git holds `gc.pid.lock`, at most
_COLLECTORS: Final = frozenset({b"gc", b"prune", b"repack", b"maintenance"})  # commands of git


def hold(common: Path) -> bool:
    """Keep `git gc` from running in a repository; False if another process holds the lock."""
    holder = _find_holder(common)
    if holder is not None and holder != os.getpid():
        return False
    # Without git's `gc.pid.lock`: a killed weft would leave it and so stop every `git gc`.
    draft = common / f"weft-gc.pid.{os.getpid()}.{threading.get_ident()}"
    draft.write_text(f"{os.getpid()} {socket.gethostname()}")
    try:
        os.link(draft, common / "gc.pid")
    except FileExistsError:  # our own, or a dead process's
        draft.replace(common / "gc.pid")
    draft.unlink(missing_ok=True)
    # A git that read `gc.pid` before this moment still holds its lock, and writes `gc.pid` next.
    end = time.monotonic() + _TAKING
    while (common / "gc.pid.lock").exists() and time.monotonic() < end:
        time.sleep(_PAUSE / 10)
    return _find_holder(common) == os.getpid()


def guard(common: Path) -> None:
    """Keep `git gc` away from now on; the heartbeat of a worker ends this."""
    try:
        wait_and_hold(common)
    except OSError as error:
        log.warning("could not lock out `git gc`: %s", error)


def wait_and_hold(common: Path) -> bool:
    """Hold the lock after the end of a running `git gc`; False if another weft holds it."""
    end = time.monotonic() + _SECONDS
    while not hold(common):
        holder = _find_holder(common)
        if time.monotonic() > end or (holder is not None and not _is_git(holder)):
            return False
        time.sleep(_PAUSE)
    return True


def release(common: Path) -> None:
    """Let `git gc` run again, if this process holds the lock."""
    if _find_holder(common) == os.getpid():
        (common / "gc.pid").unlink(missing_ok=True)


def wait_for_collectors(common: Path) -> None:
    """Wait for the end of every command on this host that deletes objects of a repository."""
    end = time.monotonic() + _SECONDS
    for process in _list_collectors(common):
        while process_table.is_alive(process) and time.monotonic() < end:
            time.sleep(_PAUSE / 10)


def _list_collectors(common: Path) -> list[process_table.Process]:
    collectors = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, WeftError):
            if (entry / "comm").read_bytes() != b"git\n":
                continue
            words = (entry / "cmdline").read_bytes().split(b"\0")
            process = process_table.find_process(int(entry.name))
            if process is not None and not _COLLECTORS.isdisjoint(words):
                place = Path(os.readlink(entry / "cwd"))
                if ask_common_directory(place) == ask_common_directory(common):
                    collectors.append(process)
    return collectors


def ask_common_directory(place: Path) -> Path:
    asked = ("rev-parse", "--path-format=absolute", "--git-common-dir")
    return Path(check_output(place, *asked).strip("\n"))


def _find_holder(common: Path) -> int | None:
    """Return the living process of this host that holds the lock."""
    with contextlib.suppress(OSError, ValueError):
        pid, host = (common / "gc.pid").read_text().split()
        if host == socket.gethostname() and process_table.find_process(int(pid)) is not None:
            return int(pid)
    return None


def _is_git(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip() == "git"
    return False
