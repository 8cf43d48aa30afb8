"""Disk space: weft ends an agent that fills the disk while there is space left.

A full disk would also prevent weft from settling, archiving and freeing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from msgspec import Struct

_SHARE: Final = 4
"""The spare space is at most this fraction of a small file system."""


class DiskShortage(Struct, frozen=True, kw_only=True):
    """Bytes on a file system."""

    left: int
    wanted: int  # the spare space


def find_shortage(place: Path, spare: int) -> DiskShortage | None:
    """Return the shortage if less than the spare space is left."""
    try:
        disk = os.statvfs(place)
    except OSError:
        return None
    left = disk.f_bavail * disk.f_frsize
    wanted = min(spare, disk.f_blocks * disk.f_frsize // _SHARE)
    return DiskShortage(left=left, wanted=wanted) if left < wanted else None


def taken_since(place: Path, moment: float) -> int:
    """Sum the bytes of the files below a directory that were written after a moment."""
    return sum(file.st_blocks * 512 for file in _files(place) if file.st_ctime >= moment)


def _files(place: Path) -> Iterator[os.stat_result]:
    waiting = [str(place)]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    else:
                        yield entry.stat(follow_symlinks=False)
        except OSError:
            continue  # the running agent has just removed it
