"""The bounded queue of ad-hoc tasks: the worst makes way, never the better."""

from __future__ import annotations

from collections.abc import Iterable

from weft.config import Tuning
from weft.policy.order import Entry, rank


def makes_way(queued: Iterable[Entry], newcomer: Entry, now: float, tuning: Tuning) -> Entry:
    """Who leaves a full queue when `newcomer` arrives: the last in order, maybe itself."""
    return max([*queued, newcomer], key=lambda entry: rank(entry, now, tuning))
