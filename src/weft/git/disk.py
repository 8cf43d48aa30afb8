"""Files and directories that weft replaces, uses for a moment, or deletes."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import itertools
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from weft.errors import WorkspaceError

_MOUNTED: Final = frozenset({errno.EBUSY, errno.EXDEV})


def write_whole(path: Path, text: str) -> None:
    """Replace a file at once: a reader sees the old text or the new text."""
    number, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(number, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(text)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


@contextlib.contextmanager
def scratch_directory(common: Path) -> Iterator[Path]:
    """Make a directory in the git directory for this caller alone, and delete it afterwards.

    First delete those that killed processes left.
    """
    home = common / "weft" / "scratch"
    try:
        home.mkdir(parents=True, exist_ok=True)
        _delete_abandoned(home)
        place, handle = _make_locked(home)
    except OSError:  # a user who may not write here may still read
        with tempfile.TemporaryDirectory(prefix="weft-") as name:
            yield Path(name)
        return
    try:
        yield place
    finally:
        delete_tree(place)
        os.close(handle)


def _delete_abandoned(home: Path) -> None:
    for place in list(home.iterdir()):
        handle = _lock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if handle is None:
            continue
        try:
            delete_tree(place)
        except WorkspaceError:
            continue  # another process is deleting it
        finally:
            os.close(handle)


def _make_locked(home: Path) -> tuple[Path, int]:
    while True:
        place = Path(tempfile.mkdtemp(dir=home))
        handle = _lock(place, fcntl.LOCK_EX)
        if handle is not None and place.is_dir():
            return place, handle
        if handle is not None:  # another process deleted it as abandoned
            os.close(handle)


def _lock(place: Path, how: int) -> int | None:
    """Lock a directory until the returned number is closed or the process ends."""
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


def delete_tree(top: Path) -> None:
    """Delete a directory of any depth and with any permissions; other processes may do the same.

    Every directory is moved to the top before it is read. So no path gets longer than the system
    allows, and no file below a mount is touched: a mount cannot be moved.
    """
    places = (f"{top}/.{os.getpid()}.{number}" for number in itertools.count())
    waiting = [str(top)]
    while waiting:
        directory = waiting[-1]
        try:
            below = _remove_files(directory)
            for path in below:
                place = next(free for free in places if not os.path.lexists(free))
                _move(path, place)
                waiting.append(place)
            if not below:
                os.rmdir(directory)
                waiting.pop()
        except FileNotFoundError:  # another process was faster
            if not os.path.lexists(directory):
                waiting.remove(directory)
        except OSError as error:
            if error.errno in _MOUNTED:
                where = error.filename or directory
                raise WorkspaceError(f"{where} is mounted; unmount it: umount {where}") from error
            if error.errno != errno.ENOTEMPTY:  # ENOTEMPTY: another process moved a file here
                raise WorkspaceError(f"{directory} cannot be deleted: {error}.") from error


def _remove_files(directory: str) -> list[str]:
    """Delete the files of a directory; return its subdirectories."""
    below = []
    for entry in _list(directory):
        if entry.is_dir(follow_symlinks=False):
            below.append(entry.path)
            continue
        try:
            os.unlink(entry.path)
        except PermissionError:
            os.chmod(directory, stat.S_IRWXU)
            os.unlink(entry.path)
    return below


def _list(directory: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as entries:
            return list(entries)
    except PermissionError:
        os.chmod(directory, stat.S_IRWXU)
        with os.scandir(directory) as entries:
            return list(entries)


def _move(path: str, place: str) -> None:
    try:
        os.rename(path, place)
    except PermissionError:  # a directory that is moved must be writable, and so must its parent
        os.chmod(os.path.dirname(path), stat.S_IRWXU)
        os.chmod(path, stat.S_IRWXU)
        os.rename(path, place)
