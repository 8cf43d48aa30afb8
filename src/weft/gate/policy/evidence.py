"""What the recorded verdicts say, whatever trunk did in between.

Landing candidates moves the tip, but the tree of *a, b, c* on the old tip is the tree of *c* on
the tip that *a, b* made. Combinations are therefore brought to one form, on the newest base that
describes the same tree, before they are compared. What was checked on a base that does not lead
to the tip is forgotten: somebody else moved trunk.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from msgspec import Struct

from weft.gate.policy.check_records import (
    Check,
    Combination,
    PlannedLanding,
    QueuedCandidate,
    Verdict,
)

Tree = tuple[str, Combination]
"""A combination on a base, in the one form that stands for its tree."""


class Trunk:
    """The landings that lead to the tip."""

    def __init__(self, tip: str, landings: Sequence[PlannedLanding]) -> None:
        self.tip = tip
        arrived = {landing.new: landing for landing in landings}
        self._next: dict[str, tuple[Combination, str]] = {}
        self.landed: dict[str, QueuedCandidate] = {}
        base = tip
        while (landing := arrived.get(base)) is not None and landing.old not in self._next:
            base = landing.old
            self._next[base] = tuple(one.id for one in landing.candidates), landing.new
            self.landed.update((one.id, one) for one in landing.candidates)
        self.root = base  # the oldest tip from which these landings lead here

    def __contains__(self, base: str) -> bool:
        return base == self.tip or base in self._next

    def tree(self, base: str, candidates: Combination) -> Tree:
        """The one form of a combination on a base of this trunk."""
        while base != self.tip:
            landed, new = self._next[base]
            if candidates[: len(landed)] != landed:
                break
            base, candidates = new, candidates[len(landed) :]
        return base, candidates

    def landed_between(self, base: str, later: str) -> Iterator[str]:
        while base not in (later, self.tip):
            landed, base = self._next[base]
            yield from landed


class Tally(Struct):
    passed: int = 0
    failed: int = 0

    @property
    def runs(self) -> int:
        return self.passed + self.failed


class CheckFailure(Struct, frozen=True):
    """A tree that failed while its first `passing` candidates pass without the rest."""

    base: str
    candidates: Combination
    passing: int

    @property
    def tree(self) -> Tree:
        return self.base, self.candidates

    @property
    def suspects(self) -> Combination:
        """One of them is the first culprit."""
        return self.candidates[self.passing :]

    def fails_in(self, candidates: Combination) -> bool:
        """Whether a combination is sure to fail for the same cause."""
        return set(self.candidates) <= set(candidates)


class Evidence:
    def __init__(self, trunk: Trunk, verdicts: Sequence[Verdict]) -> None:
        self.trunk = trunk
        self._tallies: dict[Tree, Tally] = {}
        for verdict in verdicts:
            if verdict.base in trunk:
                tree = trunk.tree(verdict.base, verdict.candidates)
                tally = self._tallies.setdefault(tree, Tally())
                tally.passed += verdict.passed
                tally.failed += not verdict.passed

    def tree_of(self, check: Check) -> Tree:
        return self.trunk.tree(check.base, check.candidates)

    def tally(self, tree: Tree) -> Tally:
        return self._tallies.get(tree) or Tally()

    def passed(self, tree: Tree) -> bool:
        """Whether it passed at least once; that it failed as well makes it a flake."""
        return self.tally(tree).passed > 0

    def failed(self, tree: Tree) -> bool:
        tally = self.tally(tree)
        return tally.failed > 0 and not tally.passed

    def passed_on_tip(self) -> list[Combination]:
        return [
            candidates
            for (base, candidates), tally in self._tallies.items()
            if tally.passed and base == self.trunk.tip
        ]

    def proven(self) -> frozenset[str]:
        """Every candidate that was part of a tree that passed."""
        return frozenset(
            one
            for (_, candidates), tally in self._tallies.items()
            if tally.passed
            for one in candidates
        )

    def failures(self, known: Collection[str]) -> list[CheckFailure]:
        """The failed trees made of known candidates only, each narrowed down, oldest first."""
        narrowed = {
            self._narrow(*tree): None
            for tree in self._tallies
            if self.failed(tree) and all(one in known for one in tree[1])
        }
        return list(narrowed)

    def _narrow(self, base: str, candidates: Combination) -> CheckFailure:
        """Cut a failed tree down to the part that is known to fail first."""
        prefixes = [(base, candidates[:size]) for size in range(len(candidates))]
        passing = max((len(tree[1]) for tree in prefixes if self.passed(tree)), default=0)
        for tree in prefixes[passing + 1 :]:
            if self.failed(tree):
                return CheckFailure(*tree, passing)
        return CheckFailure(base, candidates, passing)
