"""A tree in memory, as far as candidates touch it: look up, change, and name what comes out.

Pure. Only directories above a touched path are held; everything else is carried along by id.
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
    in_order,
    is_tree,
    read_entry,
    spell,
    tree,
)

ROOT: Final = b""


class TreeEdit(Struct, frozen=True, kw_only=True):
    """One path of a delta; None where there is nothing."""

    path: bytes
    old: TreeEntry | None
    new: TreeEntry | None


class MemoryTree(Struct, frozen=True, kw_only=True):
    id: str
    directories: Mapping[bytes, Entries]  # by path: those above every path asked about
    made: Mapping[str, Object] = field(default_factory=dict)  # what the last change brought, by id

    def find(self, path: bytes) -> TreeEntry | None:
        directory, name = split(path)
        whole = self.directories.get(directory, {}).get(name)
        return None if whole is None else read_entry(name, whole)

    def changed(self, changes: Sequence[TreeEdit]) -> MemoryTree | None:
        """The tree with every `new` in its place, or None where a file and a directory clash."""
        edit = _Edit(self.directories)
        for change in changes:
            if change.new is None:
                edit.remove(change.path)
        edit.prune()
        for change in changes:
            if change.new is not None and not edit.put(change.path, change.new):
                return None
        made = edit.name(like=self.id)
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
        for directory in (*above(path), path):
            if directory not in self.touched:
                self.touched[directory] = dict(self.directories.get(directory, {}))
        return self.touched[path]

    def remove(self, path: bytes) -> None:
        directory, name = split(path)
        self.open(directory).pop(name, None)

    def prune(self) -> None:
        """Git keeps no empty directories."""
        for path in self._deepest_first():
            if path != ROOT and not self.touched[path]:
                directory, name = split(path)
                if is_tree(self.touched[directory].get(name, b"")):
                    del self.touched[directory][name]

    def put(self, path: bytes, entry: TreeEntry) -> bool:
        """Whether there was room: nothing above is a file, nothing there is a directory."""
        for directory in above(path):
            if directory != ROOT:
                parent, name = split(directory)
                held = self.open(parent).get(name)
                if held is not None and not is_tree(held):
                    return False
        directory, name = split(path)
        if is_tree(self.open(directory).get(name, b"")):
            return False
        self._set(directory, name, entry)
        return True

    def name(self, like: str) -> dict[str, Object]:
        """Every touched directory as an object by its id, the root last."""
        made: dict[str, Object] = {}
        for path in self._deepest_first():
            if path != ROOT and not self.touched[path]:
                continue
            if path in self.unsorted:
                self.touched[path] = in_order(self.touched[path])
            one = tree(self.touched[path])
            id = identify(one, like)
            made.pop(id, None)
            made[id] = one
            if path != ROOT:
                self._set(*split(path), TreeEntry(TREE, id))
        return made

    def _set(self, directory: bytes, name: bytes, entry: TreeEntry) -> None:
        if name not in self.touched[directory]:
            self.unsorted.add(directory)
        self.touched[directory][name] = spell(name, entry)

    def _deepest_first(self) -> list[bytes]:
        return sorted(self.touched, key=_depth, reverse=True)


def split(path: bytes) -> tuple[bytes, bytes]:
    """The directory a path lies in, and its name there."""
    directory, _, name = path.rpartition(b"/")
    return directory, name


def above(path: bytes) -> Iterator[bytes]:
    """Every directory above a path, the root first."""
    if path != ROOT:
        yield ROOT
    at = path.find(b"/")
    while at >= 0:
        yield path[:at]
        at = path.find(b"/", at + 1)


def case_clashes(snapshot: MemoryTree, added: Iterable[bytes]) -> list[tuple[bytes, bytes]]:
    """Added paths that some file systems cannot tell from another path, each with that one."""
    clashes: dict[frozenset[bytes], tuple[bytes, bytes]] = {}
    for path in added:
        for whole in (*above(path), path):
            directory, name = split(whole)
            for other in snapshot.directories.get(directory, {}):
                if other != name and _folded(other) == _folded(name):
                    prefix = directory + b"/" if directory else b""
                    pair = (whole, prefix + other)
                    clashes.setdefault(frozenset(pair), pair)
    return list(clashes.values())


def _folded(name: bytes) -> str:
    return unicodedata.normalize("NFC", name.decode(errors="surrogateescape")).casefold()


def _depth(path: bytes) -> int:
    return path.count(b"/") + 1 if path else 0
