"""What becomes of a culprit: the last of a combination that fails and passes without it.

It is retried alone, on the tip as it was when it joined the queue. If it fails again it is bad
by itself. If it passes alone, the failed combination is run again: passing now, it was a flake,
and the passed tree counts; failing again, the culprit does not go together with others that came
before it. The fewest of those are then looked for, so that the reason can name them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from weft.gate.policy.check_records import (
    Check,
    Combination,
    Purpose,
    QueuedCandidate,
    Rejection,
    RejectionReason,
)
from weft.gate.policy.evidence import CheckFailure, Evidence, Tree


def judge(
    culprit: QueuedCandidate,
    failures: Sequence[CheckFailure],
    evidence: Evidence,
    candidates: Mapping[str, QueuedCandidate],
) -> Rejection | Check:
    """The rejection of a culprit, or the check that is missing for it.

    `failures` are those it is the only suspect of, `candidates` all that are queued or landed.
    """
    failure = failures[0]
    trial = _Trial(culprit, failure, evidence, candidates)
    alone = trial.tree(())
    if evidence.passed(alone):
        if evidence.tally(failure.tree).failed > 1:
            return trial.smallest_failure()
        return _check(failure.tree, evidence, Purpose.RETRY)
    runs = evidence.tally(alone).failed
    if runs > 1 or (runs == 1 and any(one.tree != alone for one in failures)):
        return trial.rejection(())
    return _check(alone, evidence, Purpose.RETRY)


class _Trial:
    """A culprit on a base, after any of those that came before it."""

    def __init__(
        self,
        culprit: QueuedCandidate,
        failure: CheckFailure,
        evidence: Evidence,
        candidates: Mapping[str, QueuedCandidate],
    ) -> None:
        trunk = evidence.trunk
        self._culprit = culprit
        self._base = culprit.base if culprit.base in trunk else trunk.root
        landed = trunk.landed_between(self._base, failure.base)
        self._before = (*landed, *failure.candidates[:-1])
        self._evidence = evidence
        self._candidates = candidates

    def tree(self, others: Iterable[str]) -> Tree:
        return self._evidence.trunk.tree(self._base, self._combination(others))

    def rejection(self, others: Iterable[str]) -> Rejection:
        return Rejection(
            candidate=self._culprit.id,
            reason=RejectionReason.RED,
            base=self._base,
            combination=self._combination(others),
        )

    def smallest_failure(self) -> Rejection | Check:
        """Find, latest first, those without which the culprit passes."""
        kept: set[str] = set()
        fails = len(self._before)
        while not self._evidence.failed(self.tree(kept)):
            found = self._first_failing(kept, fails)
            if isinstance(found, Check):
                return found
            fails = found - 1
            kept.add(self._before[fails])
        return self.rejection(kept)

    def _first_failing(self, kept: set[str], fails: int) -> int | Check:
        """How many of the first fail together with those kept, at least; `fails` of them do."""
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

    def _combination(self, others: Iterable[str]) -> Combination:
        """The others and all they need, in order, and then the culprit."""
        wanted = set(others)
        for one in (*wanted, self._culprit.id):
            wanted |= self._candidates[one].needs
        return (*(one for one in self._before if one in wanted), self._culprit.id)


def _check(tree: Tree, evidence: Evidence, purpose: Purpose) -> Check:
    base, candidates = tree
    return Check(base=base, candidates=candidates, nth=evidence.tally(tree).runs, purpose=purpose)
