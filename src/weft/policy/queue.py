"""The bounded queue of ad-hoc tasks. The last task in order leaves, so among equals the newest.

docs/design/full-queue.md explains why it is not the oldest.
"""

from __future__ import annotations

from collections.abc import Iterable

from weft.config import Tuning
from weft.policy.order import Entry, rank


def makes_way(queued: Iterable[Entry], newcomer: Entry, now: float, tuning: Tuning) -> Entry:
    """Return the entry that leaves a full queue when `newcomer` arrives; it may be the newcomer."""
    return max([*queued, newcomer], key=lambda entry: rank(entry, now, tuning))
