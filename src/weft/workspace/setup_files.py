"""A name for the files that set-up copies and links into a workspace: equal names, equal files.

Copied files are named by their content; a file is read again only if its size, times or inode have
changed, so asking often costs little. Linked files stay the user's, may be huge, and are changed by
the programs that use them. So they are examined once and only from outside: inode and times of the
directory or file, and size and times of the files at its top, where installers keep their records.
That misses changes below the top of a linked directory, later changes of linked files, and times
and owners of copied files.
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

_RESTLESS: Final = 3  # changes after which the files are no longer followed
_TOP: Final = 10_000  # entries of a linked directory
_FRESH: Final = 2.0  # seconds in which a file may change and keep its times


class _File(NamedTuple):
    """The state of a file, directory or link; an equal state stands for equal content."""

    name: str
    mode: int
    inode: int = 0
    size: int = 0
    modified: int = 0
    changed: int = 0


class SetupFiles:
    """The files that set-up brings from the user's checkout."""

    def __init__(self, repository: Path, settings: WorkspaceSettings) -> None:
        self._repository = repository
        self._settings = settings
        self._lock = threading.Lock()
        self._digests: dict[_File, str] = {}  # of file contents
        self._last: tuple[list[_File], str] | None = None  # states whose digests are all known
        self._name: str | None = None
        self._changes = 0  # since the name was last seen to stay
        self._restless = False

    def name(self) -> str:
        """Return the name of the present files.

        Files that change all the time, such as the database of a running program, would not keep a
        name for the duration of a check. After a few changes they get a random name for good: its
        verdicts hold for this object alone.
        """
        with self._lock:
            if not self._restless:
                digest = self._digest()
                self._changes += self._name not in (None, digest)
                self._restless = self._changes > _RESTLESS
                self._name = f"restless {uuid.uuid4()}" if self._restless else digest
            assert self._name is not None
            return self._name

    def keeps(self, name: str) -> bool:
        """Tell whether the files still have this name."""
        kept = self.name() == name
        if kept:
            self._changes = 0
        return kept

    @functools.cached_property
    def _root(self) -> str | None:
        """The user's checkout; None in a bare repository."""
        root = find_top_level(self._repository)
        return None if root is None else str(root)

    @functools.cached_property
    def _links(self) -> str:
        assert self._root is not None
        names = [normalise(name) for name in self._settings.link]
        return _digest(line for name in names for line in _examine_link(self._root, name))

    def _digest(self) -> str:
        if not (self._settings.copy or self._settings.link) or self._root is None:
            return ""
        names = [normalise(name) for name in self._settings.copy]
        files = [file for name in names for file in _walk(self._root, name)]
        if self._last is not None and self._last[0] == files:
            return self._last[1]
        self._last = None
        before, self._digests = self._digests, {}
        contents = [self._content(self._root, file, before) for file in sorted(files)]
        digest = _digest((self._links, *contents))
        if all(file in self._digests for file in files if stat.S_ISREG(file.mode)):
            self._last = (files, digest)
        return digest

    def _content(self, root: str, file: _File, before: dict[_File, str]) -> object:
        """Return name, mode and content of a file; `before` are the known digests."""
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
                self._digests[file] = content
        except OSError as error:  # gone or unreadable: copying it reports that
            return file.name, file.mode, error.errno
        return file.name, file.mode, content


def _walk(root: str, name: str) -> Iterator[_File]:
    """Yield a file, or a directory and all below it."""
    path = os.path.join(root, name)
    try:
        file = _file(name, os.lstat(path))
        yield file
        if stat.S_ISDIR(file.mode):
            yield from _below(path, name)
    except OSError:  # gone or unreadable: copying it reports that
        yield _File(name, 0)


def _below(path: str, name: str) -> list[_File]:
    with os.scandir(path) as entries:
        inside = [
            (_file(f"{name}/{entry.name}", entry.stat(follow_symlinks=False)), entry.path)
            for entry in entries
        ]
    files = [file for file, _ in inside]
    for file, where in inside:
        if stat.S_ISDIR(file.mode):
            files += _below(where, file.name)
    return files


def _file(name: str, state: os.stat_result) -> _File:
    return _File(
        name, state.st_mode, state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns
    )


def _examine_link(root: str, name: str) -> Iterator[_File]:
    """Yield a linked file, or a linked directory and the files at its top."""
    path = os.path.join(root, name)
    try:
        yield _file(name, os.stat(path))
        if os.path.isdir(path):
            with os.scandir(path) as entries:
                inside = islice(entries, _TOP)
                files = [entry for entry in inside if entry.is_file(follow_symlinks=False)]
            for entry in sorted(files, key=lambda entry: entry.name):
                yield _file(entry.name, entry.stat(follow_symlinks=False))
    except OSError:
        yield _File(name, 0)


def _digest(lines: Iterable[object]) -> str:
    digest = hashlib.sha256()
    for line in lines:
        digest.update(f"{line!r}\n".encode())
    return digest.hexdigest()
