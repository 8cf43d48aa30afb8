"""The order in which tasks are admitted: total, deterministic over (rows, now).

Waiting lifts a task by a class per `class_age` and by a priority per `priority_age`, both capped.
Age counts from the submission of the run, or of the task when it is ad hoc. So all tasks of a run
age alike, and their longest paths decide among them. Tasks of a run that share a file exclude each
other: among them plan order decides, not the paths.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from weft.config import Tuning
from weft.model import HUMAN, Class

Rank = tuple[int, int, int, int, float, float, int]
Urgency = tuple[int, int, int, int]


class QueueEntry(Struct, frozen=True, kw_only=True):
    """The columns that decide the order."""

    id: int
    klass: int
    priority: int
    path_seconds: float  # 0 for ad-hoc tasks, which are then ordered by submission
    submitted: float  # of the run, or of the task when ad hoc


def declared_class(klass: int, agent: str | None) -> int:
    """Return the class of a task: a question to a person is always interactive."""
    return int(Class.INTERACTIVE) if agent == HUMAN else int(klass)


def rank(entry: QueueEntry, now: float, tuning: Tuning) -> Rank:
    """Return the sort key of an entry: the smaller goes first."""
    urgent = urgency(entry.klass, entry.priority, entry.submitted, now, tuning)
    return (*urgent, -entry.path_seconds, entry.submitted, entry.id)


def urgency(klass: int, priority: int, submitted: float, now: float, tuning: Tuning) -> Urgency:
    """Return class and priority after ageing, then as declared; the smaller value goes first."""
    age = max(0.0, now - submitted)
    return (
        max(0, klass - int(age // tuning.class_age)),
        max(0, priority - int(age // tuning.priority_age)),
        klass,
        priority,
    )


def last_of(
    queued: Iterable[QueueEntry], newcomer: QueueEntry, now: float, tuning: Tuning
) -> QueueEntry:
    """Return the entry that leaves a full queue when `newcomer` arrives: the last in order.

    So among equals the newest leaves; docs/design/full-queue.md explains why not the oldest.
    """
    return max([*queued, newcomer], key=lambda entry: rank(entry, now, tuning))
