"""Labels of phases and tasks (ruling 11): the number each carries, or one that is free."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct


class Labels(Struct, frozen=True, kw_only=True):
    labels: tuple[str, ...]  # of each, in order; no two are equal
    doubled: frozenset[str]  # numbers that several carry
    repeats: tuple[int, ...]  # which of them carry a number that was taken


def assign(numbers: Sequence[str | None]) -> Labels:
    """Label the tasks of a phase, or the phases of a plan, given the number each carries."""
    carried = {number for number in numbers if number is not None}
    labels: list[str | None] = []
    taken: set[str] = set()
    doubled: set[str] = set()
    repeats = []
    for place, number in enumerate(numbers):
        label = number
        if number is None:
            ordinal = str(place + 1)
            label = None if ordinal in carried else ordinal
        elif number in taken:
            doubled.add(number)
            repeats.append(place)
            label = None
        labels.append(label)
        if label is not None:
            taken.add(label)
    # Numbers above the highest are free, and stay so as they are handed out one by one.
    free = max((_leading(label) for label in taken | carried), default=0) + 1
    final = []
    for label in labels:
        if label is None:
            label = str(free)
            free += 1
        final.append(label)
    return Labels(labels=tuple(final), doubled=frozenset(doubled), repeats=tuple(repeats))


def _leading(label: str) -> int:
    """Return the number a label begins with: 12 of 12B."""
    return int(label.rstrip("ABCDEFGHIJKLMNOPQRSTUVWXYZ").partition(".")[0])
