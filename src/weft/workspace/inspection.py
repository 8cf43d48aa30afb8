"""Inspection of an agent's files before git or weft reads them, within bounds.

git opens `.gitignore`, `.gitattributes` and the files of every git directory that it meets without
checking their kind: a pipe of such a name keeps git waiting for ever. Paths that are nested too
deep cannot be opened, and files that are too large or too many would be hashed for hours. The
inspection reads only names, kinds and sizes.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final

from weft.errors import WorkspaceError
from weft.git.trees import Differences
from weft.workspace.workspace_records import Slot, Workspace

DEPTH: Final = 200  # directories within each other
ENTRIES: Final = 4_000_000  # files and directories in all, ignored ones included
CHANGED: Final = 100_000  # files that differ from the base
SECONDS: Final = 300.0  # for an inspection of all of them
_OPENED: Final = frozenset({".gitignore", ".gitattributes", ".gitmodules", ".git", ".lfsconfig"})
_TEXT: Final = 16 << 20  # bytes read of such a file
_OCTAL: Final = re.compile(rb"\\([0-7]{3})")
_SHARE: Final = 4  # the room to keep free is at most 1/_SHARE of a small file system
_SMALL: Final = 8  # less than 1/_SMALL of the free room may be kept even on a short disk


class Unkeepable(WorkspaceError):
    """The files that an agent left cannot be kept."""


def inspect(workspace: Workspace) -> None:
    """Raise `Unkeepable` if git could not read the workspace in bounded time."""
    for path, kind in _traps(workspace):
        shown = _cut(path.removeprefix(f"{workspace.path}/"))
        raise Unkeepable(f"{shown} is {kind}, which git would wait for.")


def disarm(workspace: Workspace) -> None:
    """Remove pipes, sockets and devices that git would wait for; they hold no work."""
    for path, _ in list(_traps(workspace)):
        os.unlink(path)


def refuse_too_large(workspace: Workspace, changed: Differences) -> None:
    """Raise `Unkeepable` if the changed files are too many or too large, or the disk has no
    room."""
    paths = (*changed.modified, *changed.untracked)
    if len(paths) > CHANGED:
        raise Unkeepable(
            f"{len(paths)} files differ from the base, more than the {CHANGED} that weft takes up; "
            "list the files that shall not land in .gitignore."
        )
    most = workspace.terms.rules.max_file_mb
    total = 0
    for path in paths:
        try:
            size = os.lstat(workspace.path / path).st_size
        except OSError:  # changed again since: git reports it
            continue
        if size > most << 20:
            raise Unkeepable(
                f"{path} has {_mb(size)} MB, more than max_file_mb = {most} of [workspace] allows."
            )
        total += size
    refuse_without_room(workspace, total)


def refuse_without_room(workspace: Workspace, total: int) -> None:
    """Raise `Unkeepable` if this many more bytes would leave too little room on the disk."""
    place = os.statvfs(workspace.common)
    left = place.f_bavail * place.f_frsize
    spare = min(
        workspace.terms.rules.spare_disk_mb << 20, place.f_blocks * place.f_frsize // _SHARE
    )
    if total > left - spare and total > left // _SMALL:
        raise Unkeepable(
            f"Keeping it takes up to {_mb(total)} MB of the disk, on which {_mb(left)} MB are left "
            f"and {_mb(spare)} MB are to stay free; it stays in {workspace.path}."
        )


def find_mount(slot: Slot) -> str | None:
    """Return a mount point in a workspace; None if there is none or the system does not tell."""
    try:
        lines = Path("/proc/self/mountinfo").read_bytes().splitlines()
    except OSError:
        return None
    tops = tuple(os.path.realpath(place) + os.sep for place in (slot.directory, slot.tree))
    for line in lines:
        # Blanks and similar characters are written as three octal digits.
        place = os.fsdecode(_OCTAL.sub(lambda match: bytes([int(match[1], 8)]), line.split()[4]))
        if (place + os.sep).startswith(tops):
            return place
    return None


def refuse_mounts(slot: Slot) -> None:
    """Raise `Unkeepable` if there is a mount in a workspace: deleting would reach into it."""
    mount = find_mount(slot)
    if mount is not None:
        raise Unkeepable(f"Something is mounted at {mount}; unmount it: umount {mount}")


def read_file(path: Path, most: int) -> bytes:
    """Read a regular file of bounded size; return b"" if it is missing, larger or of another
    kind."""
    try:
        number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        status = os.fstat(number)
        if not stat.S_ISREG(status.st_mode) or status.st_size > most:
            return b""
        with open(number, "rb", closefd=False) as file:
            return file.read(most)
    finally:
        os.close(number)


def walk(top: Path) -> Iterator[os.DirEntry[str]]:
    """Yield every file and directory below a directory, without following links; raise beyond
    the bounds."""
    end = time.monotonic() + SECONDS
    waiting = [(str(top), 0)]
    count = 0
    while waiting:
        directory, depth = waiting.pop()
        if depth > DEPTH:
            raise Unkeepable(f"{_cut(directory)} is nested more than {DEPTH} directories deep.")
        for entry in _list(directory):
            count += 1
            yield entry
            if entry.is_dir(follow_symlinks=False):
                waiting.append((entry.path, depth + 1))
        if count > ENTRIES:
            raise Unkeepable(f"{top} holds more than {ENTRIES} files.")
        if time.monotonic() > end:
            raise Unkeepable(f"{top} could not be looked through within {SECONDS:.0f} s.")


def _list(directory: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as entries:
            return list(islice(entries, ENTRIES))
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise Unkeepable(f"{_cut(directory)} has too long a path.") from error
        return []  # deleted or unreadable: git reports it


def _traps(workspace: Workspace) -> Iterator[tuple[str, str]]:
    """Yield the paths that git would open and wait for, each with its kind."""
    root = str(workspace.path)
    for entry in walk(workspace.path):
        if entry.name in _OPENED or "/.git/" in entry.path[len(root) :]:
            yield from _trap(entry)
            if entry.name == ".git" and os.path.dirname(entry.path) != root:
                yield from _linked_traps(entry)
    if workspace.admin.is_dir() and not workspace.admin.is_symlink():
        for entry in walk(workspace.admin):
            yield from _trap(entry)


def _trap(entry: os.DirEntry[str]) -> Iterator[tuple[str, str]]:
    if entry.is_dir(follow_symlinks=False) or entry.is_symlink():
        return
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError:
        return
    if not stat.S_ISREG(status.st_mode):
        yield entry.path, _kind(status.st_mode)
    elif status.st_size > _TEXT and entry.name in _OPENED:
        raise Unkeepable(f"{entry.path} has {_mb(status.st_size)} MB.")


def _linked_traps(entry: os.DirEntry[str]) -> Iterator[tuple[str, str]]:
    """Yield the traps in the git directory to which a `.git` file or link leads."""
    text = read_file(Path(entry.path), 4096)
    target = os.fsdecode(text.removeprefix(b"gitdir:").strip()) if text else entry.path
    directory = os.path.join(os.path.dirname(entry.path), target)
    if "\0" not in directory:
        for inside in _list(directory):
            yield from _trap(inside)


def _kind(mode: int) -> str:
    if stat.S_ISFIFO(mode):
        return "a pipe"
    return "a socket" if stat.S_ISSOCK(mode) else "a device"


def _cut(path: str) -> str:
    return path if len(path) <= 200 else f"{path[:160]}…"


def _mb(size: int) -> int:
    return -(-size // (1 << 20))
