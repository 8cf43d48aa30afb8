"""Fairness: tenants take turns, and no task is passed over for ever.

Both rules are derived from the fences of past admissions, not from counters.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from weft.admission.capacity import Shortage
from weft.config import Tuning


def must_yield(recent: Sequence[str], tuning: Tuning) -> str | None:
    """Return the tenant of the last admissions in a row; it goes only if no other tenant can.

    `recent` are the tenants of the latest admissions, newest first.
    """
    latest = recent[: tuning.in_a_row]
    if len(latest) == tuning.in_a_row and len(set(latest)) == 1:
        return latest[0]
    return None


class Bypassed(Struct, frozen=True, kw_only=True):
    """The first task in order that could not be admitted, and the fence since when."""

    task: int
    since: int
    reserved: bool = False


def bypassed(previous: Bypassed | None, first: int | None, fence: int) -> Bypassed | None:
    """Return the first task in order that is held up, after an admission under `fence`.

    `first` is the best task ahead of the admitted task that could not be admitted. If there was
    none, no task was bypassed, and the previous task stays first. A reservation lasts until its
    task is admitted.
    """
    if previous is not None and (previous.reserved or first in (None, previous.task)):
        return previous
    if first is None:
        return None
    return Bypassed(task=first, since=fence - 1)


def may_reserve(
    short: Sequence[Shortage], *, nominal: dict[str, int], run: str | None, pinned_away: bool
) -> bool:
    """Tell whether reserved capacity would help a task; if not, it would only stay idle.

    Other tasks cannot make room in a paused limit, a penalised provider, the run's own budget or at
    a pinned worker that is away.
    """
    if pinned_away:
        return False
    budget = f"run:{run}/usd"
    return all(
        shortage.capacity > 0
        and shortage.capacity >= nominal.get(shortage.resource, shortage.capacity)
        and shortage.resource != budget
        for shortage in short
    )
