"""How likely a candidate is bad, learned from those that were settled."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

FIRST_GUESS: Final = 0.1
_GUESS_WEIGHT: Final = 20.0  # candidates the first guess counts for, always
_MEMORY: Final = 0.99  # weight of a candidate relative to the one settled after it
_LEAST: Final = 0.005
_MOST: Final = 0.5


def estimate(rejected: Iterable[bool]) -> float:
    """The chance that the next candidate is bad, from whether each settled one was, oldest first.

    A first guess that never quite fades keeps a lucky or unlucky streak from choosing batches
    that are far off; older candidates count less, since agents and plans change.
    """
    bad = seen = 0.0
    for was_rejected in rejected:
        bad = bad * _MEMORY + was_rejected
        seen = seen * _MEMORY + 1
    odds = (FIRST_GUESS * _GUESS_WEIGHT + bad) / (_GUESS_WEIGHT + seen)
    return min(_MOST, max(_LEAST, odds))
