"""Combinations of entries as trees, and the fewest of them that do not go together."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from msgspec import Struct

from weft.gate.conflicts import FileConflict
from weft.gate.merge import MergeCandidate, MergeStep, merge
from weft.git.object_store import Plumbing
from weft.model import Entry

Steps = list[tuple[MergeStep, ...]]
"""Of each entry, what became of its commits on top of those before."""


class Clash(Struct, frozen=True, kw_only=True):
    """An entry that does not merge once the others are merged, none of which can be left out."""

    entry: Entry
    others: tuple[Entry, ...]
    conflicts: tuple[FileConflict, ...]


def combine(plumbing: Plumbing, base: str, entries: Sequence[Entry]) -> Steps | Clash:
    """The steps of each entry on top of those before it, unless one does not merge."""
    steps = _merge(plumbing, base, entries)
    for number, entry in enumerate(entries):
        if _conflicts(steps[number]):
            return _find_clash(plumbing, base, entries[:number], entry)
    return steps


def _find_clash(plumbing: Plumbing, base: str, before: Sequence[Entry], entry: Entry) -> Clash:
    """Find, latest first, those without which the entry merges."""
    kept: set[str] = set()
    last = len(before)
    while not (found := _try(plumbing, base, before, kept, entry)) and last:
        passes = 0
        while last - passes > 1:
            middle = (passes + last) // 2
            first = kept.union(one.id for one in before[:middle])
            if _try(plumbing, base, before, first, entry):
                last = middle
            else:
                passes = middle
        last -= 1
        kept |= {before[last].id, *before[last].needs}
    return Clash(
        entry=entry,
        others=tuple(one for one in before if one.id in kept),
        conflicts=found,
    )


def _try(
    plumbing: Plumbing, base: str, before: Sequence[Entry], wanted: Collection[str], entry: Entry
) -> tuple[FileConflict, ...]:
    """Where an entry conflicts with the wanted ones of those before it."""
    others = [one for one in before if one.id in wanted]
    return _conflicts(_merge(plumbing, base, [*others, entry])[-1])


def _conflicts(steps: Sequence[MergeStep]) -> tuple[FileConflict, ...]:
    return tuple(conflict for step in steps for conflict in step.conflicts)


def _merge(plumbing: Plumbing, base: str, entries: Sequence[Entry]) -> Steps:
    candidates = [
        MergeCandidate(commit=one, base=on) for entry in entries for one, on in entry.work
    ]
    steps = iter(merge(plumbing, base, candidates))
    return [tuple(next(steps) for _ in entry.work) for entry in entries]
