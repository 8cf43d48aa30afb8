"""The recorded verdicts, made comparable across landings.

A landing moves the tip, but the tree of *a, b, c* on the old tip is the tree of *c* on the tip
that *a, b* made. So combinations are compared in one form, on the newest base with the same tree.
Verdicts on a base that does not lead to the tip are ignored: weft did not move trunk there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from msgspec import Struct

from weft.candidate_records import CheckVerdict, Landing
from weft.gate.policy.gate_records import Check, Combination

Tree = tuple[str, Combination]
"""A base and a combination, in the one form that stands for their tree."""


class Trunk:
    """The landings that lead to the tip."""

    def __init__(self, tip: str, landings: Sequence[Landing]) -> None:
        self.tip = tip
        by_tip = {landing.new: landing for landing in landings if landing.state == "landed"}
        self._next: dict[str, Landing] = {}
        self.landed: set[str] = set()
        base = tip
        while (landing := by_tip.get(base)) is not None and landing.old not in self._next:
            base = landing.old
            self._next[base] = landing
            self.landed.update(landing.entries)
        self.root = base  # the oldest tip from which these landings lead to the newest

    def __contains__(self, base: str) -> bool:
        return base == self.tip or base in self._next

    def tree(self, base: str, combination: Combination) -> Tree:
        while base != self.tip:
            landing = self._next[base]
            size = len(landing.entries)
            if combination[:size] != landing.entries:
                break
            base, combination = landing.new, combination[size:]
        return base, combination

    def list_landed(self, base: str, later: str) -> Iterator[str]:
        """Yield the entries that landed between two tips."""
        while base not in (later, self.tip):
            yield from self._next[base].entries
            base = self._next[base].new


class Tally(Struct):
    passed: int = 0
    failed: int = 0

    @property
    def runs(self) -> int:
        return self.passed + self.failed


class CheckFailure(Struct, frozen=True):
    """A tree that failed, although its first `passing` entries pass without the rest."""

    base: str
    combination: Combination
    passing: int

    @property
    def tree(self) -> Tree:
        return self.base, self.combination

    @property
    def suspects(self) -> Combination:
        """The entries among which the first culprit is."""
        return self.combination[self.passing :]

    def fails_in(self, combination: Combination) -> bool:
        """Tell whether a combination is sure to fail for the same cause."""
        return set(self.combination) <= set(combination)


class Evidence:
    """The verdicts on each tree."""

    def __init__(self, trunk: Trunk, verdicts: Sequence[CheckVerdict]) -> None:
        self.trunk = trunk
        self._tallies: dict[Tree, Tally] = {}
        for verdict in verdicts:
            if verdict.base in trunk:
                tree = trunk.tree(verdict.base, verdict.combination)
                tally = self._tallies.setdefault(tree, Tally())
                tally.passed += verdict.passed
                tally.failed += not verdict.passed

    def tree_of(self, check: Check) -> Tree:
        return self.trunk.tree(check.base, check.combination)

    def tally(self, tree: Tree) -> Tally:
        return self._tallies.get(tree) or Tally()

    def passed(self, tree: Tree) -> bool:
        """Tell whether a tree passed at least once: its failures then were flakes."""
        return self.tally(tree).passed > 0

    def failed(self, tree: Tree) -> bool:
        tally = self.tally(tree)
        return tally.failed > 0 and not tally.passed

    def passed_on_tip(self) -> list[Combination]:
        return [
            combination
            for (base, combination), tally in self._tallies.items()
            if tally.passed and base == self.trunk.tip
        ]

    def proven(self) -> frozenset[str]:
        """Return every entry that was part of a tree that passed."""
        return frozenset(
            entry
            for (_, combination), tally in self._tallies.items()
            if tally.passed
            for entry in combination
        )

    def failures(self, known: Collection[str]) -> list[CheckFailure]:
        """List the failed trees of known entries, each cut down to the part that fails first."""
        return list(
            dict.fromkeys(
                self._narrow(*tree)
                for tree in self._tallies
                if self.failed(tree) and all(entry in known for entry in tree[1])
            )
        )

    def _narrow(self, base: str, combination: Combination) -> CheckFailure:
        prefixes = [(base, combination[:size]) for size in range(len(combination))]
        passing = max((len(tree[1]) for tree in prefixes if self.passed(tree)), default=0)
        for tree in prefixes[passing + 1 :]:
            if self.failed(tree):
                return CheckFailure(*tree, passing)
        return CheckFailure(base, combination, passing)
