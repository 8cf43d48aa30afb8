"""Trials of a culprit: the last entry of a combination that fails and passes without it.

The culprit is retried alone, on the tip at which it joined the queue. If it fails again, it is bad
by itself. If it passes alone, the failed combination is run again. A pass means that the failure
was a flake, and the passed tree counts. Another failure means that the culprit does not go
together with earlier entries. The fewest of those are then searched for, so that the rejection
can name them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from weft.candidate_records import Entry
from weft.gate.policy.evidence import CheckFailure, Evidence, Tree
from weft.gate.policy.gate_records import Check, Combination, Purpose, Rejection, RejectionReason


def try_culprit(
    culprit: Entry,
    failures: Sequence[CheckFailure],
    evidence: Evidence,
    entries: Mapping[str, Entry],
) -> Rejection | Check:
    """Return the rejection of a culprit, or the check that is missing for it.

    The culprit is the only suspect of each of the failures; `entries` are all queued and landed
    entries.
    """
    failure = failures[0]
    trial = _Trial(culprit, failure, evidence, entries)
    alone = trial.tree(())
    if evidence.passed(alone):
        if evidence.tally(failure.tree).failed > 1:
            return trial.smallest_failure()
        return _check(failure.tree, evidence, Purpose.RETRY)
    runs = evidence.tally(alone).failed
    if runs > 1 or (runs == 1 and any(failure.tree != alone for failure in failures)):
        return trial.rejection(())
    return _check(alone, evidence, Purpose.RETRY)


class _Trial:
    """A culprit on a base, after any choice of the entries before it."""

    def __init__(
        self,
        culprit: Entry,
        failure: CheckFailure,
        evidence: Evidence,
        entries: Mapping[str, Entry],
    ) -> None:
        trunk = evidence.trunk
        base = culprit.base or trunk.tip
        self._culprit = culprit
        self._base = base if base in trunk else trunk.root
        landed = trunk.list_landed(self._base, failure.base)
        self._before = (*landed, *failure.combination[:-1])
        self._evidence = evidence
        self._entries = entries

    def tree(self, before: Iterable[str]) -> Tree:
        return self._evidence.trunk.tree(self._base, self._combination(before))

    def rejection(self, before: Iterable[str]) -> Rejection:
        return Rejection(
            reason=RejectionReason.RED, base=self._base, combination=self._combination(before)
        )

    def smallest_failure(self) -> Rejection | Check:
        """Find, latest first, the entries without which the culprit passes."""
        kept: set[str] = set()
        fails = len(self._before)
        while not self._evidence.failed(self.tree(kept)):
            fewest = self._fewest_failing(kept, fails)
            if isinstance(fewest, Check):
                return fewest
            fails = fewest - 1
            kept.add(self._before[fails])
        return self.rejection(kept)

    def _fewest_failing(self, kept: set[str], fails: int) -> int | Check:
        """Return the size of the shortest prefix that fails together with the kept entries, or
        the check that is missing; a prefix of the size `fails` is known to fail."""
        passes = middle = 0
        while fails - passes > 1 or middle == passes == 0:
            tree = self.tree(kept.union(self._before[:middle]))
            if self._evidence.failed(tree):
                fails = middle
            elif self._evidence.passed(tree):
                passes = middle
            else:
                return _check(tree, self._evidence, Purpose.BLAME)
            middle = (passes + fails + 1) // 2
        return fails

    def _combination(self, before: Iterable[str]) -> Combination:
        """Return the given entries and all that they need, in order, and then the culprit."""
        wanted = set(before)
        for entry in (*wanted, self._culprit.id):
            wanted |= self._entries[entry].needs
        return (*(entry for entry in self._before if entry in wanted), self._culprit.id)


def _check(tree: Tree, evidence: Evidence, purpose: Purpose) -> Check:
    base, combination = tree
    return Check(base=base, combination=combination, nth=evidence.tally(tree).runs, purpose=purpose)
