"""What a merge needs to know beforehand, read in few questions to git: deltas, trees, texts,
attributes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from weft.git import GitFailed
from weft.git.memory_tree import ROOT, MemoryTree, TreeEdit, above, split
from weft.git.object_store import Plumbing, empty_tree
from weft.git.objects import REGULAR, TreeEntry, read_tree

ATTRIBUTES: Final = b".gitattributes"
_LARGEST_TEXT: Final = 1_000_000
_LONGEST_NAME: Final = 255
_LONGEST_PATH: Final = 4096
_RAW: Final = ("-r", "-z", "--raw", "--no-renames", "--no-abbrev")


def read_deltas(plumbing: Plumbing, trees: Sequence[tuple[str, str]]) -> list[tuple[TreeEdit, ...]]:
    """What leads from the one tree to the other, for each pair."""
    if not trees:
        return []
    asked = "".join(f"{old} {new}\n" for old, new in trees).encode()
    return list(_deltas(plumbing.run("diff-tree", "--stdin", *_RAW, stdin=asked)))


def read_snapshot(plumbing: Plumbing, tree: str, paths: Iterable[bytes]) -> MemoryTree:
    """The tree as far as it lies above these paths."""
    directories = list(dict.fromkeys((ROOT, *(one for path in paths for one in above(path)))))
    found = plumbing.read([tree.encode() + b":" + directory for directory in directories])
    return MemoryTree(
        id=tree,
        directories={
            directory: read_tree(one.content, tree)
            for directory, one in zip(directories, found, strict=True)
            if one is not None and one.kind == "tree"
        },
    )


def read_texts(plumbing: Plumbing, ids: Iterable[str]) -> dict[str, bytes]:
    """The contents of these blobs, the largest left out."""
    sizes = plumbing.sizes(sorted(ids))
    small = [id for id, size in sizes.items() if size <= _LARGEST_TEXT]
    found = plumbing.read([id.encode() for id in small])
    return {id: one.content for id, one in zip(small, found, strict=True) if one is not None}


def place_attributes(plumbing: Plumbing, tree: str) -> None:
    """Give git this tree's attributes to go by.

    It reads them from the working tree alone, as `git merge` on that tree does; the user's
    checkout may have any others.
    """
    held = plumbing.attributes or empty_tree(tree)
    pattern = ":(glob)**/" + ATTRIBUTES.decode()
    changes = [
        change
        for change in _changes(plumbing.run("diff-tree", *_RAW, held, tree, "--", pattern))
        if is_safe(change.path)
    ]
    for change in changes:
        if _is_regular(change.old):
            _remove(plumbing.tree, change.path)
    new = [(one.path, one.new.id) for one in changes if one.new and _is_regular(one.new)]
    contents = plumbing.read([id.encode() for _, id in new])
    for (path, _), one in zip(new, contents, strict=True):
        if one is None:
            raise GitFailed(f"{os.fsdecode(path)} of {tree} is missing in the repository.")
        place = plumbing.tree / os.fsdecode(path)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(one.content)
    plumbing.attributes = tree


def is_safe(path: bytes) -> bool:
    """Whether it can be checked out: a crafted tree may name `.git`, or what no disk can hold."""
    parts = path.split(b"/")
    return len(path) < _LONGEST_PATH and not any(
        len(part) > _LONGEST_NAME or part.lower() in (b"", b".", b"..", b".git") for part in parts
    )


def changes_attributes(delta: Iterable[TreeEdit]) -> bool:
    return any(split(change.path)[1] == ATTRIBUTES for change in delta)


def _is_regular(entry: TreeEntry | None) -> bool:
    """Git reads attributes through no symbolic link."""
    return entry is not None and entry.mode in REGULAR


def _remove(tree: Path, path: bytes) -> None:
    place = tree / os.fsdecode(path)
    place.unlink()
    for directory in place.parents:
        if directory == tree or any(directory.iterdir()):
            return
        directory.rmdir()


def _deltas(output: bytes) -> Iterator[tuple[TreeEdit, ...]]:
    """The answer begins each pair with a line that repeats it."""
    at = 0
    while at < len(output):
        at = output.index(b"\n", at) + 1
        start = at
        while output.startswith(b":", at):
            at = output.index(b"\0", output.index(b"\0", at) + 1) + 1
        yield tuple(_changes(output[start:at]))


def _changes(output: bytes) -> Iterator[TreeEdit]:
    fields = iter(output.split(b"\0")[:-1])
    for facts in fields:
        old_mode, new_mode, old, new, _ = facts.decode().removeprefix(":").split(" ")
        yield TreeEdit(path=next(fields), old=_entry(old_mode, old), new=_entry(new_mode, new))


def _entry(mode: str, id: str) -> TreeEntry | None:
    return None if mode == "000000" else TreeEntry(mode, id)
