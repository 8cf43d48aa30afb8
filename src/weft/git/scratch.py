"""Short-lived directories in the repository's git directory. Each new directory first removes
those that killed processes left."""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from weft.errors import WorkspaceError
from weft.git.deletion import delete_tree


@contextlib.contextmanager
def scratch_directory(common: Path) -> Iterator[Path]:
    """Make a directory for this caller alone, and delete it afterwards."""
    home = common / "weft" / "scratch"
    try:
        home.mkdir(parents=True, exist_ok=True)
        sweep(home)
        place, handle = _make(home)
    except OSError:  # a user who may not write here may still read
        with tempfile.TemporaryDirectory(prefix="weft-") as name:
            yield Path(name)
        return
    try:
        yield place
    finally:
        delete_tree(place)
        os.close(handle)


def sweep(home: Path) -> None:
    """Remove the directories whose users are dead."""
    for place in list(home.iterdir()):
        handle = _lock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if handle is None:
            continue
        try:
            delete_tree(place)
        except WorkspaceError:
            continue  # another process is removing it
        finally:
            os.close(handle)


def _make(home: Path) -> tuple[Path, int]:
    while True:
        place = Path(tempfile.mkdtemp(dir=home))
        handle = _lock(place, fcntl.LOCK_EX)
        if handle is not None and place.is_dir():
            return place, handle
        if handle is not None:  # another process took this one for abandoned
            os.close(handle)


def _lock(place: Path, how: int) -> int | None:
    """Lock a directory until the number is closed or its process ends; return None if that
    fails."""
    try:
        handle = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(handle, how)
    except OSError:
        os.close(handle)
        return None
    return handle
