"""Entries that are looked at before they land: what their first check comes to. Pure.

Each is checked by itself on the tip it came to, and once more if it fails. What passes goes on to
review or judge; only then it joins the queue that lands.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from msgspec import Struct

from weft.gate.policy.check_records import (
    Check,
    Conflict,
    Purpose,
    Rejection,
    RejectionReason,
    Verdict,
)

_TRIES = 2


class First(Struct, frozen=True, kw_only=True):
    """What follows from the facts for entries that are to be looked at."""

    pass_on: tuple[str, ...] = ()
    reject: tuple[Rejection, ...] = ()
    start: tuple[Check, ...] = ()


def first_checks(
    entries: Sequence[tuple[str, str]],
    verdicts: Sequence[Verdict],
    conflicts: Sequence[Conflict],
    running: Collection[Check],
    room: int,
) -> First:
    """`entries` are ids, each with the base it is checked on, in order of arrival."""
    passed: list[str] = []
    refused: list[Rejection] = []
    start: list[Check] = []
    for entry, base in entries:
        if any(one.candidate == entry and one.base == base for one in conflicts):
            refused.append(_rejection(entry, base, RejectionReason.CONFLICT))
            continue
        known = [one.passed for one in verdicts if (one.base, one.candidates) == (base, (entry,))]
        if any(known):
            passed.append(entry)
        elif len(known) >= _TRIES:
            refused.append(_rejection(entry, base, RejectionReason.RED))
        else:
            check = Check(base=base, candidates=(entry,), nth=len(known), purpose=Purpose.SEARCH)
            if check not in running and len(start) < room:
                start.append(check)
    return First(pass_on=tuple(passed), reject=tuple(refused), start=tuple(start))


def _rejection(entry: str, base: str, reason: RejectionReason) -> Rejection:
    return Rejection(candidate=entry, reason=reason, base=base, combination=(entry,))
