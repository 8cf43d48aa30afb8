"""Combinations to check next, which separate good entries from bad and land the good.

Every slot takes the next unknown entries as a batch on the tip, and halves batches that fail. The
batch at the front of the line starts at the first entry, so it can land as it is; with a single
slot all batches are prefixes of the line. Entries found good in other batches are known to be good
only apart, and land once their union was checked as one tree. Slots that would idle look ahead.

Each bad entry costs at least the bits that say where it is. The distance to the next bad entry is
geometric, and checking a prefix asks a yes-or-no question about that distance. The cheapest
questions are those of an optimal code for run lengths: batches that pass about every other time,
and in a failed batch halves of equal chance. This stays within 2 % of the entropy for fifty
entries of which 10 % are bad; the exact dynamic programme gains 0.4 % more.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import accumulate, takewhile
from operator import mul
from typing import Final

from weft.gate.policy.evidence import CheckFailure, Tree
from weft.gate.policy.gate_records import Check, Combination, Purpose
from weft.gate.policy.queue_analysis import TRIALS, QueueAnalysis

_FEW: Final = 2.0
"""Expected bad entries in a front that may well pass as it is."""

_EVEN: Final = math.log(2)
"""Expected bad entries in a front that is as likely to pass as to fail."""

_TRIAL_SHARE: Final = 4
"""Under load, 1/4 of the slots tries culprits. That keeps up with 10 % bad entries."""


class Slots:
    """The running checks, and the checks to start beside them."""

    def __init__(self, size: int, queue: QueueAnalysis, running: Sequence[Check]) -> None:
        self.size = size
        self.queue = queue
        self._running = list(running)
        self.started: list[Check] = []

    @property
    def free(self) -> int:
        return max(0, self.size - len(self._running))

    @property
    def free_for_trials(self) -> int:
        running = sum(check.purpose in TRIALS for check in self._running)
        return max(0, math.ceil(self.size / _TRIAL_SHARE) - running)

    def start(self, checks: Iterable[Check]) -> None:
        """Start as many checks as fit, without those that run or have their verdict."""
        evidence = self.queue.evidence
        taken = {(evidence.tree_of(check), check.nth) for check in self._running}
        for check in filter(self.queue.is_useful, checks):
            if not self.free:
                return
            tree = evidence.tree_of(check)
            if evidence.tally(tree).runs == check.nth and (tree, check.nth) not in taken:
                taken.add((tree, check.nth))
                self._running.append(check)
                self.started.append(check)

    def running_trees(self, *purposes: Purpose) -> list[Tree]:
        return [
            self.queue.evidence.tree_of(check)
            for check in self._running
            if check.purpose in purposes
        ]


def every_prefix(slots: Slots) -> Iterator[Check]:
    """Check every prefix by itself, so that each commit of trunk has passed."""
    queue = slots.queue
    for size in range(1, min(slots.size, len(queue.front)) + 1):
        prefix = queue.front[:size]
        if queue.evidence.failed((queue.tip, prefix)):
            return
        yield _check(queue.tip, prefix, Purpose.SEARCH)


def failed_halves(slots: Slots) -> list[Check]:
    """Check a part of every failed batch, longer than its part that passes."""
    searched = slots.running_trees(Purpose.SEARCH)
    checks = []
    for failure in slots.queue.failures:
        if not any(_narrows(tree, failure) for tree in searched):
            first = split_point([slots.queue.odds_of(suspect) for suspect in failure.suspects])
            prefix = failure.combination[: failure.passing + first]
            checks.append(_check(failure.base, prefix, Purpose.SEARCH))
    return checks


def _narrows(tree: Tree, failure: CheckFailure) -> bool:
    base, combination = tree
    return (
        base == failure.base
        and failure.passing < len(combination) < len(failure.combination)
        and combination == failure.combination[: len(combination)]
    )


def unknown_batches(slots: Slots) -> list[Check]:
    """Check unknown entries that no running check covers, in batches for the free slots."""
    suspects = {entry for failure in slots.queue.failures for entry in failure.suspects}
    return _batches(slots, [entry for entry in _uncovered(slots) if entry not in suspects])


def suspect_batches(slots: Slots) -> list[Check]:
    """Check the same with suspects, whose turn would come later."""
    return _batches(slots, _uncovered(slots))


def _uncovered(slots: Slots) -> list[str]:
    searched = slots.running_trees(Purpose.SEARCH)
    covered = {entry for _, combination in searched for entry in combination}.union(
        slots.queue.proven
    )
    return [entry for entry in slots.queue.ready if entry not in covered]


def _batches(slots: Slots, pool: Sequence[str]) -> list[Check]:
    queue = slots.queue
    if not pool or slots.free < 1:
        return []
    size = min(batch_size(queue.odds), math.ceil(len(pool) / slots.free))
    batches = []
    prefix = _front_batch(queue, frozenset(pool), size)
    if prefix:
        batches.append(prefix)
        pool = [entry for entry in pool if entry not in prefix]
    while pool:
        batch = _next_batch(queue, pool, size)
        batches.append(_with_needs(queue, batch))
        pool = pool[len(batch) :]
    return [_check(queue.tip, batch, Purpose.SEARCH) for batch in batches]


def _front_batch(queue: QueueAnalysis, pool: Collection[str], size: int) -> Combination:
    """Return the front up to the last of `size` unknown entries."""
    prefix: list[str] = []
    end = unknown = 0
    for entry in queue.front:
        if entry in pool and unknown < size:
            unknown += 1
            end = len(prefix) + 1
        elif entry not in queue.proven:
            break
        prefix.append(entry)
    return tuple(prefix[:end])


def _next_batch(queue: QueueAnalysis, pool: Sequence[str], size: int) -> Sequence[str]:
    if queue.entries[pool[0]].alone:
        return pool[:1]
    return list(takewhile(lambda entry: not queue.entries[entry].alone, pool[:size]))


def _with_needs(queue: QueueAnalysis, batch: Sequence[str]) -> Combination:
    wanted = set(batch).union(*(queue.entries[entry].needs for entry in batch))
    return tuple(entry for entry in queue.ready if entry in wanted)


def whole_front(slots: Slots) -> list[Check]:
    """Check the whole front, unknown entries included, if it may well pass as it is.

    If a pass is as likely as a failure, this single batch is best and covers its entries.
    """
    queue = slots.queue
    expected = sum(map(queue.odds_of, queue.front))
    if expected > _FEW:
        return []
    purpose = Purpose.SEARCH if expected <= _EVEN else Purpose.UNION
    return _landing_check(slots, queue.front, purpose)


def overdue_union(slots: Slots) -> list[Check]:
    """Check the good front if it should not wait for a free slot.

    That is when no other entry can join it, or when it is as long as all that the slots find good
    in two rounds: its check then costs little beside the entries that it lands.
    """
    good = _good_front(slots.queue)
    if good == slots.queue.front or len(good) >= slots.size * batch_size(slots.queue.odds):
        return _landing_check(slots, good, Purpose.UNION)
    return []


def idle_unions(slots: Slots) -> Iterator[Check]:
    """Check, in slots that would idle, the good front, then the longest that may well pass.

    Only a single union runs at a time.
    """
    for front in (_good_front(slots.queue), _likely_front(slots.queue)):
        if not slots.running_trees(Purpose.UNION):
            yield from _landing_check(slots, front, Purpose.UNION)


def _good_front(queue: QueueAnalysis) -> Combination:
    return tuple(takewhile(lambda entry: entry in queue.proven, queue.front))


def _likely_front(queue: QueueAnalysis) -> Combination:
    expected = accumulate(map(queue.odds_of, queue.front))
    return tuple(entry for entry, bad in zip(queue.front, expected, strict=True) if bad <= _FEW)


def _landing_check(slots: Slots, front: Combination, purpose: Purpose) -> list[Check]:
    """Return the check that lets a front land, unless a running check lets it land with more."""
    tip = slots.queue.tip
    running = slots.running_trees(Purpose.SEARCH, Purpose.UNION)
    covered = any(
        base == tip and combination[: len(front)] == front for base, combination in running
    )
    return [_check(tip, front, purpose)] if front and not covered else []


def _check(base: str, combination: Combination, purpose: Purpose) -> Check:
    return Check(base=base, combination=combination, purpose=purpose)


def batch_size(odds: float) -> int:
    """Return how many unknown entries to check at once: the run length of Golomb's code.

    It is the smallest size for which a longer batch no longer brings the chance to pass nearer
    to 1/2.
    """
    passes = 1.0 - odds
    size = 1
    while passes**size * (1.0 + passes) > 1.0:
        size += 1
    return size


def split_point(odds: Sequence[float]) -> int:
    """Return how many entries of a failed batch to check next, given each entry's odds.

    The chance that the first bad entry is among them is as close to 1/2 as possible.
    """
    survival = list(accumulate((1.0 - chance for chance in odds), mul))
    fails = 1.0 - survival[-1]
    return min(
        range(1, len(odds)), key=lambda first: abs((1.0 - survival[first - 1]) / fails - 0.5)
    )
