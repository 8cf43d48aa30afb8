"""Merges of several entries, and the fewest entries that conflict."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from msgspec import Struct

from weft.candidate_records import Entry
from weft.gate.conflicts import FileConflict
from weft.gate.merge import MergeCandidate, MergeStep, merge
from weft.git.object_store import ObjectStore

EntrySteps = list[tuple[MergeStep, ...]]
"""The merged commits of each entry, on top of the entries before it."""


class EntryConflict(Struct, frozen=True, kw_only=True):
    """An entry that does not merge after earlier entries, none of which can be left out."""

    entry: Entry
    earlier: tuple[Entry, ...]
    conflicts: tuple[FileConflict, ...]


def combine(
    objects: ObjectStore, base: str, entries: Sequence[Entry]
) -> EntrySteps | EntryConflict:
    """Merge entries on a base, in their order."""
    steps = _merge(objects, base, entries)
    for number, entry in enumerate(entries):
        if _conflicts(steps[number]):
            return _find_fewest(objects, base, entries[:number], entry)
    return steps


def _find_fewest(
    objects: ObjectStore, base: str, before: Sequence[Entry], entry: Entry
) -> EntryConflict:
    """Find, latest first, the entries without which an entry merges."""
    kept: set[str] = set()
    last = len(before)
    while not (conflicts := _try(objects, base, before, kept, entry)) and last:
        passes = 0
        while last - passes > 1:
            middle = (passes + last) // 2
            first = kept.union(earlier.id for earlier in before[:middle])
            if _try(objects, base, before, first, entry):
                last = middle
            else:
                passes = middle
        last -= 1
        kept |= {before[last].id, *before[last].needs}
    earlier = tuple(old for old in before if old.id in kept)
    return EntryConflict(entry=entry, earlier=earlier, conflicts=conflicts)


def _try(
    objects: ObjectStore, base: str, before: Sequence[Entry], wanted: Collection[str], entry: Entry
) -> tuple[FileConflict, ...]:
    """Return the conflicts of an entry with the wanted entries before it."""
    chosen = [earlier for earlier in before if earlier.id in wanted]
    return _conflicts(_merge(objects, base, [*chosen, entry])[-1])


def _conflicts(steps: Sequence[MergeStep]) -> tuple[FileConflict, ...]:
    return tuple(conflict for step in steps for conflict in step.conflicts)


def _merge(objects: ObjectStore, base: str, entries: Sequence[Entry]) -> EntrySteps:
    candidates = [
        MergeCandidate(commit=commit, base=made_on)
        for entry in entries
        for commit, made_on in entry.work
    ]
    steps = iter(merge(objects, base, candidates))
    return [tuple(next(steps) for _ in entry.work) for entry in entries]
