"""The inputs of a merge, read with few calls of git: deltas, trees, texts and attributes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from weft.git import GitFailed
from weft.git.memory_tree import ROOT, MemoryTree, TreeEdit, parents, split
from weft.git.object_store import ObjectStore
from weft.git.objects import REGULAR, TreeEntry, empty_tree, read_tree

ATTRIBUTES: Final = b".gitattributes"
_LARGEST_TEXT: Final = 1_000_000
_LONGEST_NAME: Final = 255
_LONGEST_PATH: Final = 4096
_RAW: Final = ("-r", "-z", "--raw", "--no-renames", "--no-abbrev")


def read_deltas(
    objects: ObjectStore, trees: Sequence[tuple[str, str]]
) -> list[tuple[TreeEdit, ...]]:
    """Return the changes between the trees of each pair."""
    if not trees:
        return []
    pairs = "".join(f"{old} {new}\n" for old, new in trees).encode()
    return list(_deltas(objects.run("diff-tree", "--stdin", *_RAW, input=pairs)))


def read_snapshot(objects: ObjectStore, tree: str, paths: Iterable[bytes]) -> MemoryTree:
    """Return the part of a tree above these paths."""
    directories = list(dict.fromkeys((ROOT, *(above for path in paths for above in parents(path)))))
    trees = objects.read([tree.encode() + b":" + directory for directory in directories])
    return MemoryTree(
        id=tree,
        directories={
            directory: read_tree(object.content, tree)
            for directory, object in zip(directories, trees, strict=True)
            if object is not None and object.kind == "tree"
        },
    )


def read_texts(objects: ObjectStore, ids: Iterable[str]) -> dict[str, bytes]:
    """Return the contents of these blobs, without the largest."""
    sizes = objects.sizes(sorted(ids))
    small = [id for id, size in sizes.items() if size <= _LARGEST_TEXT]
    blobs = objects.read([id.encode() for id in small])
    return {id: blob.content for id, blob in zip(small, blobs, strict=True) if blob is not None}


def place_attributes(objects: ObjectStore, tree: str) -> None:
    """Write the attributes of a tree for git, which reads them only from the working tree.

    The user's checkout may have different attributes.
    """
    present = objects.attributes or empty_tree(tree)
    pattern = ":(glob)**/" + ATTRIBUTES.decode()
    changes = [
        change
        for change in _changes(objects.run("diff-tree", *_RAW, present, tree, "--", pattern))
        if is_safe(change.path)
    ]
    for change in changes:
        if _is_regular(change.old):
            _remove(objects.view.tree, change.path)
    new = [
        (change.path, change.new.id) for change in changes if change.new and _is_regular(change.new)
    ]
    blobs = objects.read([id.encode() for _, id in new])
    for (path, _), blob in zip(new, blobs, strict=True):
        if blob is None:
            raise GitFailed(f"{os.fsdecode(path)} of {tree} is missing in the repository.")
        place = objects.view.tree / os.fsdecode(path)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(blob.content)
    objects.attributes = tree


def is_safe(path: bytes) -> bool:
    """Tell whether a path can be checked out; a crafted tree may name `.git` or a long path."""
    parts = path.split(b"/")
    return len(path) < _LONGEST_PATH and not any(
        len(part) > _LONGEST_NAME or part.lower() in (b"", b".", b"..", b".git") for part in parts
    )


def changes_attributes(delta: Iterable[TreeEdit]) -> bool:
    return any(split(change.path)[1] == ATTRIBUTES for change in delta)


def _is_regular(entry: TreeEntry | None) -> bool:
    """Tell whether git reads attributes from an entry, which it does through no symlink."""
    return entry is not None and entry.mode in REGULAR


def _remove(tree: Path, path: bytes) -> None:
    place = tree / os.fsdecode(path)
    place.unlink()
    for directory in place.parents:
        if directory == tree or any(directory.iterdir()):
            return
        directory.rmdir()


def _deltas(output: bytes) -> Iterator[tuple[TreeEdit, ...]]:
    """Parse the answer, in which each pair begins with a line that repeats it."""
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
