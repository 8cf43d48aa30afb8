"""Guessing what a merge will come to, so that git can confirm many merges at once.

Pure. A guess is only ever a matter of speed: `merge` keeps nothing that git has not said itself.
Deltas that meet nothing are put side by side; where two edit one text, the lines of the second
go where their surroundings are found in the first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher

from weft.git.memory_tree import MemoryTree, TreeEdit
from weft.git.objects import REGULAR, TREE, Object, TreeEntry, identify

_CONTEXT = 3
"""Lines around an edit that have to be found unchanged; git is content with fewer."""
_LINES = 500
"""Texts that differ over more lines than this are left to git: comparing them costs more."""


def guess(
    snapshot: MemoryTree, delta: Sequence[TreeEdit], texts: Mapping[str, bytes]
) -> tuple[MemoryTree, dict[str, bytes]] | None:
    """The tree with this delta on it and the texts made on the way; None if it hardly fits.

    `texts` holds the contents of blobs that may have to be blended, by id.
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
    changed = snapshot.changed(changes)
    return None if changed is None else (changed, made)


def overlapping(snapshot: MemoryTree, deltas: Sequence[Sequence[TreeEdit]]) -> set[str]:
    """The ids of texts that guessing may have to blend."""
    seen: dict[bytes, TreeEdit] = {}
    ids: set[str] = set()
    for delta in deltas:
        for change in delta:
            first = seen.setdefault(change.path, change)
            current = snapshot.find(change.path)
            if first is not change or current != change.old:
                entries = (current, first.old, first.new, change.old, change.new)
                ids |= {one.id for one in entries if one and one.mode in REGULAR}
    return ids


def blend(old: bytes, ours: bytes, new: bytes) -> bytes | None:
    """`ours` with the edits from `old` to `new`, or None where their place is not plain."""
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
    held = [texts.get(one.id) for one in (change.old, current, change.new)]
    old, ours, new = held
    if old is None or ours is None or new is None:
        return None
    text = blend(old, ours, new)
    if text is None:
        return None
    return TreeEntry(current.mode, identify(Object("blob", text), current.id)), text


def _differing(old: bytes, new: bytes) -> tuple[int, int]:
    """How much of the start and of the end is the same, less the lines of context."""
    start = _common(old, new)
    end = min(_common(old[::-1], new[::-1]), min(len(old), len(new)) - start)
    for _ in range(_CONTEXT + 1):
        start = max(0, old.rfind(b"\n", 0, start))
        next_line = old.find(b"\n", len(old) - end) + 1
        end = len(old) - next_line if next_line else 0
    return start + (start > 0), end


def _common(one: bytes, other: bytes) -> int:
    """The length of what both begin with."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _is_file(entry: TreeEntry | None) -> bool:
    return entry is not None and entry.mode != TREE
