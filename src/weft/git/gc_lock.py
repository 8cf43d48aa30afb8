"""git's own lock of `git gc`, held while weft makes objects that no reference reaches yet.

A `git gc --prune=now` deletes every such object, and `git gc` refuses to run while `gc.pid` in the
git directory names a living process of this host and is younger than twelve hours. git and weft
ignore the lock of a dead process. `git prune` ignores every lock.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from pathlib import Path
from typing import Final

from weft.process import process_table

_SECONDS: Final = 60.0  # wait for a running `git gc`
_PAUSE: Final = 0.2


def hold(common: Path) -> bool:
    """Keep `git gc` from running in a repository; False if another process holds the lock."""
    holder = _find_holder(common)
    if holder is not None and holder != os.getpid():
        return False
    # Without git's `gc.pid.lock`: a killed weft would leave it and so stop every `git gc`.
    draft = common / f"weft-gc.pid.{os.getpid()}.{threading.get_ident()}"
    draft.write_text(f"{os.getpid()} {socket.gethostname()}")
    draft.replace(common / "gc.pid")
    return True


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
