"""The gate's queue, sorted by the evidence: culprits, entries set aside, and the ready line.

A culprit is the last entry of a combination that fails and passes without it. It is retried alone,
on the tip at which it joined the queue. If it fails again, it is bad by itself. If it passes alone,
the failed combination is run again. A pass means that the failure was a flake, and the passed tree
counts. Another failure means that the culprit does not go together with earlier entries. The fewest
of those are then searched for, so that the rejection can name them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import takewhile
from typing import Final

from msgspec import Struct

from weft import graph
from weft.candidate_records import Entry
from weft.gate.policy.evidence import CheckFailure, Evidence, Tree, Trunk
from weft.gate.policy.gate_records import (
    Check,
    Combination,
    GateState,
    Purpose,
    Rejection,
    RejectionReason,
)

TRIALS: Final = (Purpose.RETRY, Purpose.BLAME)
_PROVEN: Final = 0.01
"""Relative odds that an entry that passed in a combination fails beside an unknown entry."""
FIRST_GUESS: Final = 0.1
_GUESS_WEIGHT: Final = 20.0  # entries that the first guess counts for, always
_MEMORY: Final = 0.99  # weight of an entry relative to the next
_LEAST: Final = 0.005
_MOST: Final = 0.5


class QueueAnalysis(Struct, frozen=True, kw_only=True):
    evidence: Evidence
    odds: float  # that an unknown entry is bad
    proven: frozenset[str]  # landed, or part of a tree that passed
    entries: Mapping[str, Entry]  # queued or landed
    ready: Combination  # may land, in this order
    front: Combination  # the first ready entries, which may land together
    failures: Sequence[CheckFailure]  # without a known culprit
    trials: Sequence[Check]  # checks that culprits wait for
    rejections: Sequence[Rejection]
    stranded: Combination  # need an entry that has left the queue

    @property
    def tip(self) -> str:
        return self.evidence.trunk.tip

    def odds_of(self, entry: str) -> float:
        """Return the chance that an entry makes a check fail."""
        return self.odds * _PROVEN if entry in self.proven else self.odds

    def is_useful(self, check: Check) -> bool:
        """Tell whether a verdict would be news about entries that may land."""
        evidence = self.evidence
        if check.base not in evidence.trunk:
            return False
        if check.purpose in TRIALS:
            wanted = {(evidence.tree_of(trial), trial.nth) for trial in self.trials}
            return (evidence.tree_of(check), check.nth) in wanted
        if set(check.combination).difference(self.ready, evidence.trunk.landed):
            return False
        return not any(failure.fails_in(check.combination) for failure in self.failures)


def analyse_queue(state: GateState) -> QueueAnalysis:
    trunk = Trunk(state.tip, state.rows.landings)
    evidence = Evidence(trunk, state.rows.verdicts)
    queue = sort_by_needs(state.queue)
    queued = {entry.id for entry in queue}
    entries = {entry.id: entry for entry in state.rows.entries if entry.id in trunk.landed} | {
        entry.id: entry for entry in queue
    }
    landed = {id for landing in state.rows.landings for id in landing.entries}
    stranded = {entry.id for entry in queue if not entry.needs <= queued | landed}
    failures = evidence.failures(entries.keys() - stranded)
    culprits = _find_culprits(failures, queued)
    proven = evidence.proven() | trunk.landed
    held, conflicting = _find_conflicting(state, trunk, queued - stranded)
    trials = [
        try_culprit(entries[culprit], its_failures, evidence, entries)
        for culprit, its_failures in culprits.items()
        if culprit not in conflicting
    ]
    aside = culprits.keys() | held | stranded | conflicting.keys()
    # An entry that needs a lone entry could only be checked in a batch with it.
    unavailable = aside | {entry.id for entry in queue if entry.alone}
    ready = tuple(
        entry.id for entry in queue if entry.id not in aside and not entry.needs & unavailable
    )
    return QueueAnalysis(
        evidence=evidence,
        odds=estimate_odds(state.rows.rejected),
        proven=proven,
        entries=entries,
        ready=ready,
        front=_front(ready, entries),
        failures=_unexplained(failures, trunk.landed.union(ready), proven, trunk.tip),
        trials=[trial for trial in trials if isinstance(trial, Check)],
        rejections=[
            *conflicting.values(),
            *(trial for trial in trials if isinstance(trial, Rejection)),
        ],
        stranded=tuple(entry.id for entry in queue if entry.id in stranded),
    )


def estimate_odds(rejected: Iterable[bool]) -> float:
    """Return the chance that the next entry is bad, from the rejections so far, oldest first.

    The first guess never fades, so a lucky streak does not choose batches that are far off. Older
    entries count less, since agents and plans change.
    """
    bad = seen = 0.0
    for was_rejected in rejected:
        bad = bad * _MEMORY + was_rejected
        seen = seen * _MEMORY + 1
    odds = (FIRST_GUESS * _GUESS_WEIGHT + bad) / (_GUESS_WEIGHT + seen)
    return min(_MOST, max(_LEAST, odds))


def sort_by_needs(queue: Sequence[Entry]) -> list[Entry]:
    """Sort entries by needs, then by arrival."""
    number = {entry.id: index for index, entry in enumerate(queue)}
    following: list[list[int]] = [[] for _ in queue]
    for index, entry in enumerate(queue):
        for need in entry.needs & number.keys():
            following[number[need]].append(index)
    return [queue[index] for index in graph.order(following)]


def _find_culprits(
    failures: Iterable[CheckFailure], queued: set[str]
) -> dict[str, list[CheckFailure]]:
    """Return the only suspects of failures, each with those failures."""
    culprits: dict[str, list[CheckFailure]] = {}
    for failure in failures:
        if len(failure.suspects) == 1 and failure.suspects[0] in queued:
            culprits.setdefault(failure.suspects[0], []).append(failure)
    return culprits


def _find_conflicting(
    state: GateState, trunk: Trunk, queued: Collection[str]
) -> tuple[set[str], dict[str, Rejection]]:
    """Return the entries held back by a conflict with a queued entry, and those that cannot
    merge."""
    held: set[str] = set()
    rejected: dict[str, Rejection] = {}
    for conflict in state.rows.conflicts:
        if conflict.entry not in queued or conflict.base not in trunk:
            continue
        if any(entry not in queued and entry not in trunk.landed for entry in conflict.after):
            continue
        if any(entry in queued for entry in conflict.after):
            held.add(conflict.entry)
            continue
        rejected[conflict.entry] = Rejection(
            reason=RejectionReason.CONFLICT,
            base=conflict.base,
            combination=(*conflict.after, conflict.entry),
        )
    return held, rejected


def _front(ready: Combination, entries: Mapping[str, Entry]) -> Combination:
    if ready and entries[ready[0]].alone:
        return ready[:1]
    return tuple(takewhile(lambda entry: not entries[entry].alone, ready))


def _unexplained(
    failures: Sequence[CheckFailure], standing: set[str], proven: frozenset[str], tip: str
) -> list[CheckFailure]:
    """Return the failures of ready and landed entries, each the narrowest for its suspects.

    A known culprit or an entry set aside may have caused any other failure. A failure on an older
    tip whose suspects have all passed since is no news about trunk.
    """
    unexplained = [
        failure
        for failure in failures
        if len(failure.suspects) > 1
        and standing.issuperset(failure.combination)
        and (failure.base == tip or not proven.issuperset(failure.suspects))
    ]
    suspects = [set(failure.suspects) for failure in unexplained]
    return [
        failure
        for failure, its_suspects in zip(unexplained, suspects, strict=True)
        if not any(narrower < its_suspects for narrower in suspects)
    ]


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
