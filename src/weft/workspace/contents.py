"""What a workspace is brought besides its tree, under one name: equal names, equal things.

What is copied is named by its content, and a file is read again only if its size, times or inode
have changed: asking often costs little. What is linked stays the user's own, may be huge, and is
changed by the very programs that use it. So it is looked at once, and only from outside: which
directory or file it is, when it was last changed, and size and times of the files at its top,
where installers keep their records. That misses what changes below the top of a linked directory
without a trace there, whatever of it changes later, and the times and owners of copied files.
"""

from __future__ import annotations

import functools
import hashlib
import os
import stat
import threading
import time
import uuid
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

from weft.config import WorkspaceSettings
from weft.git.repository import find_top_level
from weft.workspace.setup import normalise

_RESTLESS: Final = 3  # changes after which it is no longer followed
_TOP: Final = 10_000  # entries of a linked directory that are looked at
_FRESH: Final = 2.0  # seconds in which a file may change and keep its times


class _File(NamedTuple):
    """A file, directory or link as it looks from outside: all of it, if it has not changed."""

    name: str
    mode: int
    inode: int = 0
    size: int = 0
    modified: int = 0
    changed: int = 0


class Brought:
    """What is brought from the user's checkout, for as long as somebody asks."""

    def __init__(self, repository: Path, settings: WorkspaceSettings) -> None:
        self._repository = repository
        self._settings = settings
        self._lock = threading.Lock()
        self._read: dict[_File, str] = {}  # digests of what files hold
        self._last: tuple[list[_File], str] | None = None  # if nothing of it needs to be read
        self._name: str | None = None
        self._changes = 0  # since it was last seen to keep its name
        self._restless = False

    def name(self) -> str:
        """The name of what would be brought now.

        What changes all the time, such as the database of a program that runs, would never keep a
        name for as long as a check takes. After a few changes it gets a name of its own instead,
        for good: what is found out under it holds here, and nowhere else.
        """
        with self._lock:
            if not self._restless:
                found = self._look()
                self._changes += self._name not in (None, found)
                self._restless = self._changes > _RESTLESS
                self._name = f"restless {uuid.uuid4()}" if self._restless else found
            assert self._name is not None
            return self._name

    def keeps(self, name: str) -> bool:
        """Whether it is still what it was under this name."""
        kept = self.name() == name
        if kept:
            self._changes = 0
        return kept

    @functools.cached_property
    def _root(self) -> str | None:
        """The user's checkout; a bare repository has none, which setting a workspace up tells."""
        found = find_top_level(self._repository)
        return None if found is None else str(found)

    @functools.cached_property
    def _links(self) -> str:
        assert self._root is not None
        names = [normalise(name) for name in self._settings.link]
        return _digest(line for name in names for line in _outside(self._root, name))

    def _look(self) -> str:
        if not (self._settings.copy or self._settings.link) or self._root is None:
            return ""
        names = [normalise(name) for name in self._settings.copy]
        files = [file for name in names for file in _inside(self._root, name)]
        if self._last is None or self._last[0] != files:
            self._last = None
            before, self._read = self._read, {}
            held = [self._held(self._root, file, before) for file in sorted(files)]
            found = _digest((self._links, *held))
            if all(file in self._read for file in files if stat.S_ISREG(file.mode)):
                self._last = (files, found)
            return found
        return self._last[1]

    def _held(self, root: str, file: _File, before: dict[_File, str]) -> object:
        """What is copied of a file."""
        path = os.path.join(root, file.name)
        try:
            if stat.S_ISLNK(file.mode):
                return file.name, file.mode, os.readlink(path)
            if not stat.S_ISREG(file.mode):
                return file.name, file.mode
            content = before.get(file)
            is_old = time.time() - file.changed / 1e9 > _FRESH
            if content is None:
                with open(path, "rb") as opened:
                    content = hashlib.file_digest(opened, "sha256").hexdigest()
            if is_old:
                self._read[file] = content
        except OSError as error:  # gone, or not to be read: copying it will tell
            return file.name, file.mode, error.errno
        return file.name, file.mode, content


def _inside(root: str, name: str) -> Iterator[_File]:
    """What is there under a name and, if it is a directory, below."""
    path = os.path.join(root, name)
    try:
        found = _file(name, os.lstat(path))
        yield found
        if stat.S_ISDIR(found.mode):
            yield from _below(path, name)
    except OSError:  # gone, or not to be read: copying it will tell
        yield _File(name, 0)


def _below(path: str, name: str) -> list[_File]:
    with os.scandir(path) as entries:
        found = [
            (_file(f"{name}/{one.name}", one.stat(follow_symlinks=False)), one.path)
            for one in entries
        ]
    files = [file for file, _ in found]
    for file, where in found:
        if stat.S_ISDIR(file.mode):
            files += _below(where, file.name)
    return files


def _file(name: str, found: os.stat_result) -> _File:
    return _File(
        name, found.st_mode, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
    )


def _outside(root: str, name: str) -> Iterator[_File]:
    """What can be told of a linked directory or file without going into it."""
    path = os.path.join(root, name)
    try:
        yield _file(name, os.stat(path))
        if os.path.isdir(path):
            with os.scandir(path) as entries:
                files = [one for one in islice(entries, _TOP) if one.is_file(follow_symlinks=False)]
            for one in sorted(files, key=lambda one: one.name):
                yield _file(one.name, one.stat(follow_symlinks=False))
    except OSError:
        yield _File(name, 0)


def _digest(lines: Iterable[object]) -> str:
    digest = hashlib.sha256()
    for line in lines:
        digest.update(f"{line!r}\n".encode())
    return digest.hexdigest()
