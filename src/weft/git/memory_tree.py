"""The part of a tree that candidates touch, in memory. Pure.

It holds only the directories above a touched path; all others are known by their ids.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct, field

from weft.git.objects import (
    TREE,
    Entries,
    Object,
    TreeEntry,
    identify,
    is_tree,
    make_tree,
    read_entry,
    sort_entries,
    write_entry,
)

ROOT: Final = b""


class TreeEdit(Struct, frozen=True, kw_only=True):
    """The change of a path; None stands for a missing entry."""

    path: bytes
    old: TreeEntry | None
    new: TreeEntry | None


class MemoryTree(Struct, frozen=True, kw_only=True):
    id: str
    directories: Mapping[bytes, Entries]  # by path
    made: Mapping[str, Object] = field(default_factory=dict)  # objects of the last edit, by id

    def find(self, path: bytes) -> TreeEntry | None:
        directory, name = split(path)
        whole = self.directories.get(directory, {}).get(name)
        return None if whole is None else read_entry(name, whole)

    def edit(self, changes: Sequence[TreeEdit]) -> MemoryTree | None:
        """Return the edited tree; None if a file would take the place of a directory, or the other
        way round."""
        edit = _Edit(self.directories)
        for change in changes:
            if change.new is None:
                edit.remove(change.path)
        edit.prune()
        for change in changes:
            if change.new is not None and not edit.put(change.path, change.new):
                return None
        made = edit.make_objects(like=self.id)
        return MemoryTree(
            id=next(reversed(made), self.id),
            directories={**self.directories, **edit.touched},
            made=made,
        )


class _Edit:
    """Directories copied when first touched, each together with all above it."""

    def __init__(self, directories: Mapping[bytes, Entries]) -> None:
        self.directories = directories
        self.touched: dict[bytes, dict[bytes, bytes]] = {}
        self.unsorted: set[bytes] = set()

    def open(self, path: bytes) -> dict[bytes, bytes]:
        for directory in (*parents(path), path):
            if directory not in self.touched:
                self.touched[directory] = dict(self.directories.get(directory, {}))
        return self.touched[path]

    def remove(self, path: bytes) -> None:
        directory, name = split(path)
        self.open(directory).pop(name, None)

    def prune(self) -> None:
        """Remove empty directories, which git does not keep."""
        for path in self._deepest_first():
            if path != ROOT and not self.touched[path]:
                directory, name = split(path)
                if is_tree(self.touched[directory].get(name, b"")):
                    del self.touched[directory][name]

    def put(self, path: bytes, entry: TreeEntry) -> bool:
        """Put an entry; return False if a file is above the path, or a directory at it."""
        for directory in parents(path):
            if directory != ROOT:
                parent, name = split(directory)
                present = self.open(parent).get(name)
                if present is not None and not is_tree(present):
                    return False
        directory, name = split(path)
        if is_tree(self.open(directory).get(name, b"")):
            return False
        self._set(directory, name, entry)
        return True

    def make_objects(self, like: str) -> dict[str, Object]:
        """Make an object of every touched directory; return them by id, the root last."""
        made: dict[str, Object] = {}
        for path in self._deepest_first():
            if path != ROOT and not self.touched[path]:
                continue
            if path in self.unsorted:
                self.touched[path] = sort_entries(self.touched[path])
            object = make_tree(self.touched[path])
            id = identify(object, like)
            made.pop(id, None)
            made[id] = object
            if path != ROOT:
                self._set(*split(path), TreeEntry(TREE, id))
        return made

    def _set(self, directory: bytes, name: bytes, entry: TreeEntry) -> None:
        if name not in self.touched[directory]:
            self.unsorted.add(directory)
        self.touched[directory][name] = write_entry(name, entry)

    def _deepest_first(self) -> list[bytes]:
        return sorted(self.touched, key=_depth, reverse=True)


def split(path: bytes) -> tuple[bytes, bytes]:
    """Return a path's directory and name."""
    directory, _, name = path.rpartition(b"/")
    return directory, name


def parents(path: bytes) -> Iterator[bytes]:
    """Yield every directory above a path, the root first."""
    if path != ROOT:
        yield ROOT
    at = path.find(b"/")
    while at >= 0:
        yield path[:at]
        at = path.find(b"/", at + 1)


def find_case_twins(snapshot: MemoryTree, added: Iterable[bytes]) -> list[tuple[bytes, bytes]]:
    """Return added paths that some file systems take for another path, each with that path."""
    pairs: dict[frozenset[bytes], tuple[bytes, bytes]] = {}
    for path in added:
        for whole in (*parents(path), path):
            directory, name = split(whole)
            for twin in snapshot.directories.get(directory, {}):
                if twin != name and _folded(twin) == _folded(name):
                    prefix = directory + b"/" if directory else b""
                    pair = (whole, prefix + twin)
                    pairs.setdefault(frozenset(pair), pair)
    return list(pairs.values())


def _folded(name: bytes) -> str:
    return unicodedata.normalize("NFC", name.decode(errors="surrogateescape")).casefold()


def _depth(path: bytes) -> int:
    return path.count(b"/") + 1 if path else 0
