"""Records of the gate's decisions: the facts, the checks to run and the next step.

A *combination* is an ordered list of entries that are merged on a base, the tip of trunk at some
moment. The policy knows no trees: the gate merges combinations, answers a check from an earlier
verdict on the same tree, and records a conflict for the first entry that does not merge.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from weft.candidate_records import Entry, GateRows

Combination = tuple[str, ...]
"""Ids of entries, in the order in which they are merged."""


class Purpose(StrEnum):
    """The reason for a check."""

    SEARCH = "search"  # separates good entries from bad entries
    UNION = "union"  # lands entries together that passed apart
    RETRY = "retry"  # repeats the failure of a culprit before its rejection
    BASE = "base"  # of the tip of trunk itself, before agents start or when its state is in doubt
    BRANCH = "branch"  # of a run merged onto a branch of the user, by `weft land`
    TESTS = "tests"  # of an entrant's candidate with the new tests of another entrant
    BLAME = "blame"  # searches for the entries without which a culprit passes


class Check(Struct, frozen=True, kw_only=True):
    """A run of the check on the tree of a combination.

    A retry or blame check that does not merge counts as failed: its combination never lands.
    """

    base: str
    combination: Combination
    nth: int = 0  # number of earlier verdicts on this combination
    purpose: Purpose = Purpose.SEARCH


class GateState(Struct, frozen=True, kw_only=True):
    """The facts that decide the next step."""

    rows: GateRows  # of the verdicts, only those of the present commands
    tip: str
    slots: int  # checks that may run at once
    running: tuple[Check, ...] = ()

    @property
    def queue(self) -> list[Entry]:
        """The entries that wait to land, in order of arrival."""
        return [entry for entry in self._queued if not entry.looked_at]

    @property
    def before_review(self) -> list[Entry]:
        """The entries that go to a reviewer or judge once they pass their first check."""
        return [entry for entry in self._queued if entry.looked_at]

    @property
    def _queued(self) -> list[Entry]:
        return [entry for entry in self.rows.entries if entry.state == "queued"]


class RejectionReason(StrEnum):
    RED = "red"  # its check failed
    CONFLICT = "conflict"  # it did not merge


class Rejection(Struct, frozen=True, kw_only=True):
    """An entry that goes back to its task, with the smallest known combination that fails."""

    reason: RejectionReason
    base: str
    combination: Combination  # ends with the rejected entry

    @property
    def entry(self) -> str:
        return self.combination[-1]


class GateStep(Struct, frozen=True, kw_only=True):
    """Actions that may be done at once, in any order."""

    land: Combination = ()  # on the tip; exactly this tree passed
    reject: tuple[Rejection, ...] = ()
    stranded: Combination = ()  # need an entry that has left the queue
    pass_on: Combination = ()  # passed their first check and go to review
    start: tuple[Check, ...] = ()
    cancel: tuple[Check, ...] = ()  # running without use
