"""Which combinations to check next, to tell good candidates from bad ones and to land the good.

Every slot is a lane: it takes the next unknown candidates as a batch on the tip, and halves
batches that fail. The lane at the front of the line checks from the first candidate on, so what
it finds can land as it is; with one slot that is all there is, a ladder of prefixes. What other
lanes find good is known to be good only apart from the rest, and lands once the union was
checked as one tree. Slots that would idle look ahead.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import accumulate, takewhile
from typing import Final

from msgspec import Struct

from weft.gate.policy.bisection import batch_size, halves
from weft.gate.policy.check_records import Check, Combination, Purpose, QueuedCandidate
from weft.gate.policy.evidence import CheckFailure, Evidence, Tree

_FEW: Final = 2.0
"""So many expected bad ones at most: then all of them together may well pass."""

_EVEN: Final = math.log(2)
"""So many expected bad ones at most: then they are as likely to pass together as not."""

_PROVEN: Final = 0.01
"""How likely a candidate that passed in some combination fails in another, beside one unknown."""


class CandidateLine(Struct, frozen=True, kw_only=True):
    """The candidates that may land, in order, and what is known of them."""

    ready: Combination  # without culprits and those that wait for one
    front: Combination  # the first of them, which may land together
    candidates: Mapping[str, QueuedCandidate]
    evidence: Evidence
    proven: Collection[str]
    failures: Sequence[CheckFailure]  # whose culprit is still to be found
    searched: Sequence[Tree]  # by checks that run now
    joined: Sequence[Tree]  # likewise, to land what was found apart
    odds: float

    @property
    def tip(self) -> str:
        return self.evidence.trunk.tip

    def odds_of(self, candidate: str) -> float:
        """How likely it is the one that makes a check fail."""
        return self.odds * _PROVEN if candidate in self.proven else self.odds


def one_by_one(line: CandidateLine, slots: int) -> Iterator[Check]:
    """Check every prefix by itself, so that each commit of trunk has passed."""
    for size in range(1, min(slots, len(line.front)) + 1):
        prefix = line.front[:size]
        if line.evidence.failed((line.tip, prefix)):
            return
        yield _check(line.tip, prefix, Purpose.SEARCH)


def halving(line: CandidateLine) -> Iterator[Check]:
    """One check for every failed batch, between what passes and what fails."""
    for failure in line.failures:
        if any(_probes(tree, failure) for tree in line.searched):
            continue
        first = halves([line.odds_of(one) for one in failure.suspects])
        prefix = failure.candidates[: failure.passing + first]
        yield _check(failure.base, prefix, Purpose.SEARCH)


def _probes(tree: Tree, failure: CheckFailure) -> bool:
    base, candidates = tree
    return (
        base == failure.base
        and failure.passing < len(candidates) < len(failure.candidates)
        and candidates == failure.candidates[: len(candidates)]
    )


def batches(line: CandidateLine, slots: int) -> Iterator[Check]:
    """Unknown candidates that no lane looks at, in batches for this many slots."""
    suspected = {one for failure in line.failures for one in failure.suspects}
    return _batches(line, slots, [one for one in _idle(line) if one not in suspected])


def ahead(line: CandidateLine, slots: int) -> Iterator[Check]:
    """The same with those that are suspected: their turn would come later."""
    return _batches(line, slots, _idle(line))


def _idle(line: CandidateLine) -> list[str]:
    looked_at = {one for _, candidates in line.searched for one in candidates}
    return [one for one in line.ready if one not in line.proven and one not in looked_at]


def _batches(line: CandidateLine, slots: int, pool: Sequence[str]) -> Iterator[Check]:
    if not pool or slots < 1:
        return
    size = min(batch_size(line.odds), math.ceil(len(pool) / slots))
    prefix = _front_batch(line, frozenset(pool), size)
    if prefix:
        yield _check(line.tip, prefix, Purpose.SEARCH)
        pool = [one for one in pool if one not in prefix]
    while pool:
        batch = _batch(line, pool, size)
        yield _check(line.tip, _with_needs(line, batch), Purpose.SEARCH)
        pool = pool[len(batch) :]


def _front_batch(line: CandidateLine, pool: Collection[str], size: int) -> Combination:
    """The first of the line, up to the last of `size` unknown ones, if there is one."""
    prefix: list[str] = []
    end = unknown = 0
    for one in line.front:
        if one in pool and unknown < size:
            unknown += 1
            end = len(prefix) + 1
        elif one not in line.proven:
            break
        prefix.append(one)
    return tuple(prefix[:end])


def _batch(line: CandidateLine, pool: Sequence[str], size: int) -> Sequence[str]:
    if line.candidates[pool[0]].alone:
        return pool[:1]
    together = takewhile(lambda one: not line.candidates[one].alone, pool[:size])
    return list(together)


def _with_needs(line: CandidateLine, batch: Sequence[str]) -> Combination:
    wanted = set(batch).union(*(line.candidates[one].needs for one in batch))
    return tuple(one for one in line.ready if one in wanted)


def whole(line: CandidateLine) -> Iterator[Check]:
    """The whole front, unknown candidates included, if it may well pass as it is.

    If that is as likely as not, one batch is best and nobody else need look at them.
    """
    expected = sum(line.odds_of(one) for one in line.front)
    if expected <= _FEW:
        purpose = Purpose.SEARCH if expected <= _EVEN else Purpose.UNION
        yield from _landing(line, line.front, purpose)


def overdue_union(line: CandidateLine, slots: int) -> Iterator[Check]:
    """All at the front that is known to be good apart, if it ought not to wait for a slot.

    That is when nothing at the front can still join it, or it is as much as all slots find
    good in two rounds: then its check costs little beside what it lands.
    """
    good = _good_front(line)
    if good == line.front or len(good) >= slots * batch_size(line.odds):
        yield from _landing(line, good, Purpose.UNION)


def union(line: CandidateLine) -> Iterator[Check]:
    """The same in a slot that would idle, one at a time."""
    if not line.joined:
        yield from _landing(line, _good_front(line), Purpose.UNION)


def hopeful(line: CandidateLine) -> Iterator[Check]:
    """The longest front that may well pass as it is, in a slot that would idle."""
    if not line.joined:
        yield from _landing(line, _hopeful_front(line), Purpose.UNION)


def _good_front(line: CandidateLine) -> Combination:
    return tuple(takewhile(lambda one: one in line.proven, line.front))


def _hopeful_front(line: CandidateLine) -> Combination:
    expected = accumulate(line.odds_of(one) for one in line.front)
    return tuple(one for one, bad in zip(line.front, expected, strict=True) if bad <= _FEW)


def _landing(line: CandidateLine, front: Combination, purpose: Purpose) -> Iterator[Check]:
    """The check that lets this front land, unless one runs that lets it land with more."""
    running = (*line.searched, *line.joined)
    size = len(front)
    if front and not any(
        base == line.tip and candidates[:size] == front for base, candidates in running
    ):
        yield _check(line.tip, front, purpose)


def _check(base: str, candidates: Combination, purpose: Purpose) -> Check:
    return Check(base=base, candidates=candidates, purpose=purpose)
