"""The bounded queue of ad-hoc tasks. The last task in order leaves, so among equals the newest.

docs/design/full-queue.md explains why it is not the oldest.
"""

from __future__ import annotations

from collections.abc import Iterable

from weft.admission.order import QueueEntry, rank
from weft.config import Tuning


def makes_way(
    queued: Iterable[QueueEntry], newcomer: QueueEntry, now: float, tuning: Tuning
) -> QueueEntry:
    """Return the entry that leaves a full queue when `newcomer` arrives; it may be the newcomer."""
    return max([*queued, newcomer], key=lambda entry: rank(entry, now, tuning))
