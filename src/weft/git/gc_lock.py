"""git's own lock of `git gc`, held while weft makes objects that no reference reaches yet.

A `git gc --prune=now` deletes every such object, and `git gc` refuses to run while `gc.pid` in the
git directory names a living process of this host and is younger than twelve hours. A lock of a
process that died is no obstacle, neither to git nor to weft. `git prune` does not ask for it.
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

_SECONDS: Final = 60.0  # for which a `git gc` that is under way is waited for
_PAUSE: Final = 0.2


def hold(common: Path) -> bool:
    """Keep `git gc` from running in a repository; False if another process holds the lock."""
    holder = _find_holder(common)
    if holder is not None and holder != os.getpid():
        return False
    # Not by `gc.pid.lock`, as git does it: one that a killed weft left would stop every `git gc`.
    draft = common / f"weft-gc.pid.{os.getpid()}.{threading.get_ident()}"
    draft.write_text(f"{os.getpid()} {socket.gethostname()}")
    draft.replace(common / "gc.pid")
    return True


def wait_and_hold(common: Path) -> bool:
    """Hold the lock, after the end of a `git gc` that is under way."""
    end = time.monotonic() + _SECONDS
    while not hold(common):
        holder = _find_holder(common)
        if time.monotonic() > end or (holder is not None and not _is_git(holder)):
            return False  # another weft's, which holds it for this one too
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
