"""Room on the disk: an agent that takes the last of it is ended while there is some left.

Once nothing can be written any more, nothing can be settled, archived or freed either.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from msgspec import Struct

_SHARE: Final = 4
"""What is to be left is at most this part of a small file system."""


class DiskShortage(Struct, frozen=True, kw_only=True):
    """Bytes on a file system."""

    left: int
    wanted: int  # so many are to be left


def find_shortage(place: Path, spare: int) -> DiskShortage | None:
    """None while there is as much left as is to be left, or if nobody can tell."""
    try:
        found = os.statvfs(place)
    except OSError:
        return None
    left = found.f_bavail * found.f_frsize
    wanted = min(spare, found.f_blocks * found.f_frsize // _SHARE)
    return DiskShortage(left=left, wanted=wanted) if left < wanted else None


def taken_since(place: Path, moment: float) -> int:
    """Bytes of the files beneath a directory that were written after a moment."""
    return sum(one.st_blocks * 512 for one in _files(place) if one.st_ctime >= moment)


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
            continue  # its agent, which still runs, has just removed it
