"""What the gate knows and what it may do next, as values.

A *combination* is an ordered list of candidates merged on a base, the tip of trunk at some
moment. Verdicts, landings and conflicts are rows that somebody recorded; a plan is what follows
from them. The decisions are in `batches`, and nothing here knows of git or of trees: whoever
merges maps combinations to trees, answers a check from its cache when it knows the tree, and
reports a combination that does not merge as a conflict of the first candidate that does not.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

Combination = tuple[str, ...]
"""Ids of candidates, in the order in which they are merged."""


class QueuedCandidate(Struct, frozen=True, kw_only=True):
    """A commit that asks to land. Built again, it is a new candidate with a new id."""

    id: str
    base: str  # the tip of trunk when it joined the queue
    needs: frozenset[str] = frozenset()  # all it builds on that had not landed then
    alone: bool = False  # to be checked and landed in no batch with others


class Purpose(StrEnum):
    """Why a check is run."""

    SEARCH = "search"  # tells good candidates from bad ones
    UNION = "union"  # of candidates found good apart, to land them together
    RETRY = "retry"  # of a culprit, before it is rejected
    BLAME = "blame"  # looks for the others without which a culprit passes


class Check(Struct, frozen=True, kw_only=True):
    """One run of the check on the tree of a combination.

    Where a retry or a blame does not merge, that is its failed verdict: nobody lands it.
    """

    base: str
    candidates: Combination
    nth: int = 0  # how many verdicts this combination had before
    purpose: Purpose = Purpose.SEARCH


class Verdict(Struct, frozen=True, kw_only=True):
    """How one check ended. A cancelled check has none."""

    base: str
    candidates: Combination
    passed: bool


class Conflict(Struct, frozen=True, kw_only=True):
    """A candidate that does not merge on the base once the others are merged."""

    base: str
    candidate: str
    others: Combination  # as few as are known to be enough; none: not even on the bare base


class PlannedLanding(Struct, frozen=True, kw_only=True):
    """Trunk moved from `old` to `new` by exactly these candidates."""

    old: str
    new: str
    candidates: tuple[QueuedCandidate, ...]


class GateScene(Struct, frozen=True, kw_only=True):
    """All that a plan depends on. Rows of one run, oldest first."""

    tip: str
    queue: tuple[
        QueuedCandidate, ...
    ]  # in order of arrival; neither landed, rejected nor cancelled
    slots: int  # checks that may run at once
    odds: float  # that a candidate is bad, see `odds.estimate`
    verdicts: tuple[Verdict, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    landings: tuple[PlannedLanding, ...] = ()
    running: tuple[Check, ...] = ()


class RejectionReason(StrEnum):
    RED = "red"  # its check failed
    CONFLICT = "conflict"  # it did not merge


class Rejection(Struct, frozen=True, kw_only=True):
    """A candidate that goes back, and the smallest combination found that fails with it."""

    candidate: str
    reason: RejectionReason
    base: str
    combination: Combination  # the candidate is its last; on its own: it fails without others


class GateStep(Struct, frozen=True, kw_only=True):
    """What to do now. Everything in it may be done at once, in any order."""

    land: Combination = ()  # on the tip of the scene; exactly this tree passed
    reject: tuple[Rejection, ...] = ()
    wait: tuple[str, ...] = ()  # candidates that need one that is not here any more
    start: tuple[Check, ...] = ()
    cancel: tuple[Check, ...] = ()  # running, and of no use any more
