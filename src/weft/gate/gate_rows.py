"""What the rows of a gate mean to `policy.batches`, and what its rejections say. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from weft.gate.policy import odds
from weft.gate.policy.check_records import (
    Check,
    Conflict,
    GateScene,
    PlannedLanding,
    QueuedCandidate,
    Rejection,
    Verdict,
)
from weft.gate.policy.evidence import Trunk
from weft.model import CheckVerdict, Entry, GateRows, MergeConflict

MERGE = "merge"
"""Stands for a way of checking where a combination did not even merge, which fails any check."""

WayOf = Callable[[Sequence[Entry]], str]
"""Names the way in which a combination has to be checked today."""


def scene(
    rows: GateRows, tip: str, *, slots: int, running: Sequence[Check], way_of: WayOf
) -> GateScene:
    """All that the next step depends on. What was checked in another way no longer counts, nor
    what was checked together with entries that have gone."""
    entries = {one.id: one for one in rows.entries}
    current = [
        one
        for one in rows.verdicts
        if entries.keys() >= set(one.combination)
        and one.check_id in (MERGE, way_of([entries[name] for name in one.combination]))
    ]
    return GateScene(
        tip=tip,
        queue=tuple(
            _candidate(one, tip)
            for one in rows.entries
            if one.state == "queued" and not one.looked_at
        ),
        slots=slots,
        odds=odds.estimate(rows.rejected),
        verdicts=tuple(
            Verdict(base=one.base, candidates=one.combination, passed=one.passed) for one in current
        ),
        conflicts=tuple(
            Conflict(base=one.base, candidate=one.entry, others=one.others)
            for one in rows.conflicts
        ),
        landings=_landings(rows, entries),
        running=tuple(running),
    )


def find_failure(rejection: Rejection, rows: GateRows, tip: str) -> CheckVerdict | None:
    """The latest failed check of what a rejection names, on whichever tip it was run."""
    trunk = Trunk(tip, _landings(rows, {one.id: one for one in rows.entries}))
    wanted = trunk.tree(rejection.base, rejection.combination)
    found = [
        one
        for one in rows.verdicts
        if not one.passed and one.base in trunk and trunk.tree(one.base, one.combination) == wanted
    ]
    return found[-1] if found else None


def find_conflict(rejection: Rejection, rows: GateRows) -> MergeConflict | None:
    *others, entry = rejection.combination
    for one in rows.conflicts:
        if (one.base, one.entry, one.others) == (rejection.base, entry, tuple(others)):
            return one
    return None


def _candidate(entry: Entry, tip: str) -> QueuedCandidate:
    return QueuedCandidate(
        id=entry.id, base=entry.base or tip, needs=entry.needs, alone=entry.alone
    )


def _landings(rows: GateRows, entries: dict[str, Entry]) -> tuple[PlannedLanding, ...]:
    return tuple(
        PlannedLanding(
            old=one.old,
            new=one.new,
            candidates=tuple(_candidate(entries[entry], one.old) for entry in one.entries),
        )
        for one in rows.landings
        if one.state == "landed"
    )
