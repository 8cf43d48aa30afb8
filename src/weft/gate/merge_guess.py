"""Guesses of merged trees, so that git can confirm many merges at once. Pure.

A guess only matters for speed: `merge` keeps no tree that git did not answer. Changes of different
paths are put side by side; where two candidates edit a text, the lines of the second go where
their surroundings are found in the first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher

from weft.git.memory_tree import MemoryTree, TreeEdit
from weft.git.objects import REGULAR, TREE, Object, TreeEntry, identify

_CONTEXT = 3
"""Lines around an edit that must be unchanged; git needs fewer."""
_LINES = 500
"""Texts that differ over more lines are left to git: comparing them costs more."""


def guess(
    snapshot: MemoryTree, delta: Sequence[TreeEdit], texts: Mapping[str, bytes]
) -> tuple[MemoryTree, dict[str, bytes]] | None:
    """Return the tree with a delta on it and the new texts; None if it hardly fits.

    `texts` are the contents of blobs that may have to be blended, by id.
    """
    changes = []
    made: dict[str, bytes] = {}
    for change in delta:
        current = snapshot.find(change.path)
        if current == change.new:
            continue
        if current == change.old or (change.old is None and not _is_file(current)):
            changes.append(change)
            continue
        blended = _blend_entries(current, change, texts)
        if blended is None:
            return None
        entry, text = blended
        made[entry.id] = text
        changes.append(TreeEdit(path=change.path, old=current, new=entry))
    changed = snapshot.edit(changes)
    return None if changed is None else (changed, made)


def overlapping(snapshot: MemoryTree, deltas: Sequence[Sequence[TreeEdit]]) -> set[str]:
    """Return the ids of texts that a guess may have to blend."""
    seen: dict[bytes, TreeEdit] = {}
    ids: set[str] = set()
    for delta in deltas:
        for change in delta:
            first = seen.setdefault(change.path, change)
            current = snapshot.find(change.path)
            if first is not change or current != change.old:
                entries = (current, first.old, first.new, change.old, change.new)
                ids |= {entry.id for entry in entries if entry and entry.mode in REGULAR}
    return ids


def blend(old: bytes, ours: bytes, new: bytes) -> bytes | None:
    """Return `ours` with the edits from `old` to `new`; None if their place is ambiguous."""
    start, end = _differing(old, new)
    before = old[start : len(old) - end].splitlines(keepends=True)
    after = new[start : len(new) - end].splitlines(keepends=True)
    if len(before) > _LINES or len(after) > _LINES:
        return None
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    for group in matcher.get_grouped_opcodes(_CONTEXT):
        gone = b"".join(before[group[0][1] : group[-1][2]])
        come = b"".join(after[group[0][3] : group[-1][4]])
        if ours.count(gone) != 1:
            return None
        ours = ours.replace(gone, come)
    return ours


def _blend_entries(
    current: TreeEntry | None, change: TreeEdit, texts: Mapping[str, bytes]
) -> tuple[TreeEntry, bytes] | None:
    if current is None or change.old is None or change.new is None:
        return None
    if not current.mode == change.old.mode == change.new.mode in REGULAR:
        return None
    old, ours, new = (texts.get(entry.id) for entry in (change.old, current, change.new))
    if old is None or ours is None or new is None:
        return None
    text = blend(old, ours, new)
    if text is None:
        return None
    return TreeEntry(current.mode, identify(Object("blob", text), current.id)), text


def _differing(old: bytes, new: bytes) -> tuple[int, int]:
    """Return how many bytes of start and end are the same, less the lines of context."""
    start = _common(old, new)
    end = min(_common(old[::-1], new[::-1]), min(len(old), len(new)) - start)
    for _ in range(_CONTEXT + 1):
        start = max(0, old.rfind(b"\n", 0, start))
        next_line = old.find(b"\n", len(old) - end) + 1
        end = len(old) - next_line if next_line else 0
    return start + (start > 0), end


def _common(old: bytes, new: bytes) -> int:
    """Return the length of the common prefix."""
    low, high = 0, min(len(old), len(new))
    while low < high:
        middle = (low + high + 1) // 2
        if old[low:middle] == new[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _is_file(entry: TreeEntry | None) -> bool:
    return entry is not None and entry.mode != TREE
