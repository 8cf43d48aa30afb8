"""Fairness: tenants take turns, and nobody is passed over for ever.

Both rules are derived from the fences of past admissions, not from counters.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from weft.admission.capacity import Shortage
from weft.config import Tuning


def must_yield(recent: Sequence[str], tuning: Tuning) -> str | None:
    """The tenant that had the last admissions in a row and goes only if no other can.

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
    """Who is first in line but held up, once an admission was given `fence`.

    `first` is the best task ahead of the admitted one that could not be admitted. When
    nobody was ahead, nobody was bypassed, and whoever was first before still is. A
    reservation once gained lasts until its task is admitted.
    """
    if previous is not None and (previous.reserved or first in (None, previous.task)):
        return previous
    if first is None:
        return None
    return Bypassed(task=first, since=fence - 1)


def may_reserve(
    short: Sequence[Shortage], *, nominal: dict[str, int], run: str | None, pinned_away: bool
) -> bool:
    """Whether waiting longer would help: reserving for these tasks only idles capacity.

    A paused limit, a penalised provider, the run's own budget and a pinned worker that is
    away are not things other tasks could make room in.
    """
    if pinned_away:
        return False
    budget = f"run:{run}/usd"
    return all(
        one.capacity > 0
        and one.capacity >= nominal.get(one.resource, one.capacity)
        and one.resource != budget
        for one in short
    )
