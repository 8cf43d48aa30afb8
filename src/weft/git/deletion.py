"""Deletion of directories that an agent left, at any depth and with any permissions."""

from __future__ import annotations

import errno
import itertools
import os
import stat
from pathlib import Path
from typing import Final

from weft.errors import WorkspaceError

_MOUNTED: Final = frozenset({errno.EBUSY, errno.EXDEV})


def delete_tree(top: Path) -> None:
    """Delete a directory and everything in it; another process may be doing the same.

    Every directory is moved to the top before it is read. So no path gets longer than the system
    allows, nothing recurses, and nothing below a mount is touched: a mount cannot be moved.
    """
    places = (f"{top}/.{os.getpid()}.{number}" for number in itertools.count())
    waiting = [str(top)]
    while waiting:
        directory = waiting[-1]
        try:
            below = _remove_files(directory)
            for path in below:
                place = next(one for one in places if not os.path.lexists(one))
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
            if error.errno != errno.ENOTEMPTY:  # otherwise another process moved something here
                raise WorkspaceError(f"{directory} cannot be deleted: {error}.") from error


def _remove_files(directory: str) -> list[str]:
    """Delete the files of a directory; return the directories in it."""
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
