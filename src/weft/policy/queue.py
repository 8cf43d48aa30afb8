"""The bounded queue of ad-hoc tasks: the last in order leaves, so among equals the newest.

Why not the oldest: docs/design/full-queue.md.
"""

from __future__ import annotations

from collections.abc import Iterable

from weft.config import Tuning
from weft.policy.order import Entry, rank


def makes_way(queued: Iterable[Entry], newcomer: Entry, now: float, tuning: Tuning) -> Entry:
    """Return the entry that leaves a full queue when `newcomer` arrives; it may be that one."""
    return max([*queued, newcomer], key=lambda entry: rank(entry, now, tuning))
