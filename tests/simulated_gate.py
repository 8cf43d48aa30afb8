"""A gate without git: candidates with known faults, checks that end in any order, and a judge.

It does what the real gate does around `step`: merges, runs checks in slots, answers a tree it
has seen from its cache, lands and rejects. What must never be false is asserted at each move.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from weft.gate.policy.check_records import (
    Check,
    Combination,
    Conflict,
    GateScene,
    GateStep,
    PlannedLanding,
    Purpose,
    QueuedCandidate,
    Rejection,
    RejectionReason,
    Verdict,
)
from weft.gate.policy.odds import estimate

Step = Callable[[GateScene], GateStep]
Pair = frozenset[str]
_FOR_LANDING = (Purpose.SEARCH, Purpose.UNION)


class Broken(AssertionError):
    """The strategy broke a promise."""


def promise(kept: object, what: str) -> None:
    if not kept:
        raise Broken(what)


@dataclass(frozen=True, kw_only=True)
class Faults:
    bad: frozenset[str] = frozenset()  # fail in every tree
    pairs: frozenset[Pair] = frozenset()  # fail in every tree that holds both
    clashes: frozenset[Pair] = frozenset()  # do not merge one after the other
    flaky: frozenset[str] = frozenset()  # may fail the first time a tree with them is checked

    def fail(self, tree: frozenset[str]) -> bool:
        return bool(self.bad & tree) or any(pair <= tree for pair in self.pairs)


@dataclass
class Gate:
    faults: Faults
    slots: int
    step: Step
    chance: random.Random = field(default_factory=lambda: random.Random(0))
    tip: str = "tip0"
    queue: list[QueuedCandidate] = field(default_factory=list)
    arrived: list[QueuedCandidate] = field(default_factory=list)
    verdicts: list[Verdict] = field(default_factory=list)
    conflicts: list[Conflict] = field(default_factory=list)
    landings: list[PlannedLanding] = field(default_factory=list)
    running: list[Check] = field(default_factory=list)
    rejected: dict[str, Rejection] = field(default_factory=dict)
    cancelled: set[str] = field(default_factory=set)
    stranded: set[str] = field(default_factory=set)
    outcomes: list[bool] = field(default_factory=list)
    runs: list[Check] = field(default_factory=list)
    contents: dict[str, frozenset[str]] = field(default_factory=lambda: {"tip0": frozenset()})
    cache: dict[frozenset[str], list[bool]] = field(default_factory=dict)

    def arrive(self, name: str, needs: Iterable[str] = (), *, alone: bool = False) -> None:
        """Queue a candidate; what it needs has to be here or to have landed."""
        wanted = set(needs)
        for one in self.arrived:
            if one.id in wanted:
                wanted |= one.needs
        unlanded = frozenset(wanted.difference(self.landed))
        if not unlanded <= {one.id for one in self.queue}:
            return
        candidate = QueuedCandidate(id=name, base=self.tip, needs=unlanded, alone=alone)
        self.queue.append(candidate)
        self.arrived.append(candidate)

    def cancel(self, name: str) -> None:
        if any(one.id == name for one in self.queue):
            self.cancelled.add(name)
            self._leave(name)

    def crash(self) -> None:
        """Only what was recorded is left."""
        self.running.clear()

    def somebody_moves_trunk(self) -> None:
        new = f"foreign{len(self.contents)}"
        self.contents[new] = self.contents[self.tip] | {new}
        self.tip = new

    def finish(self, check: Check) -> None:
        self.running.remove(check)
        tree = self._tree(check)
        known = self.cache.setdefault(tree, [])
        if len(known) > check.nth:  # merged in another order, the same tree ran beside it
            self._record(check, known[check.nth])
            return
        promise(known in ([], [False]), "checked again what was known")
        passed = not self.faults.fail(tree)
        if passed and not known and self.faults.flaky.intersection(check.candidates):
            passed = self.chance.random() < 0.5
        known.append(passed)
        self._record(check, passed)

    def scene(self) -> GateScene:
        return GateScene(
            tip=self.tip,
            queue=tuple(self.queue),
            slots=self.slots,
            odds=estimate(self.outcomes),
            verdicts=tuple(self.verdicts),
            conflicts=tuple(self.conflicts),
            landings=tuple(self.landings),
            running=tuple(self.running),
        )

    def settle_down(self) -> None:
        """Follow the plan until only the end of a running check could change it."""
        for _ in range(100_000):
            plan = self.step(self.scene())
            if not self._follow(plan):
                break
        else:
            raise Broken("it plans for ever")
        promise(self.running or not self.queue or not self.slots, "it is stuck")

    def run_to_the_end(self) -> None:
        self.settle_down()
        while self.running:
            self.finish(self.chance.choice(self.running))
            self.settle_down()

    def _follow(self, plan: GateStep) -> bool:
        for check in plan.cancel:
            self.running.remove(check)
        for rejection in plan.reject:
            self._reject(rejection)
        for name in plan.wait:
            self._strand(name)
        if plan.land:
            self._land(plan.land)
        for check in plan.start:
            self._start(check)
        return bool(plan.cancel or plan.reject or plan.wait or plan.land or plan.start)

    def _start(self, check: Check) -> None:
        promise(len(self.running) < self.slots, "more checks than slots")
        promise(check not in self.running, "the same check twice at once")
        self._judge_combination(check)
        if (conflict := self._find_conflict(check)) is not None:
            promise(check.purpose in _FOR_LANDING, "a trial does not merge")
            self.conflicts.append(conflict)
            return
        known = self.cache.get(self._tree(check), [])
        if len(known) > check.nth:
            self._record(check, known[check.nth])
            return
        self.running.append(check)
        self.runs.append(check)

    def _land(self, names: Combination) -> None:
        tree = self.contents[self.tip] | set(names)
        promise(True in self.cache.get(tree, []), "landed a tree that never passed")
        promise(not self.faults.fail(tree), "trunk is red")
        queued = {one.id: one for one in self.queue}
        promise(len(set(names)) == len(names), "landed twice")
        promise(queued.keys() >= set(names), "landed one that is not queued")
        before = set(self.landed)
        for name in names:
            promise(queued[name].needs <= before, "landed before what it needs")
            before.add(name)
        alone = any(queued[name].alone for name in names)
        promise(not alone or len(names) == 1, "landed in a batch though it must be alone")
        new = f"tip{len(self.contents)}"
        self.contents[new] = tree
        landing = PlannedLanding(
            old=self.tip, new=new, candidates=tuple(queued[name] for name in names)
        )
        self.landings.append(landing)
        self.tip = new
        self.outcomes += [False] * len(names)
        for name in names:
            self._leave(name)

    def _reject(self, rejection: Rejection) -> None:
        name, combination = rejection.candidate, rejection.combination
        promise(any(one.id == name for one in self.queue), "rejected one that is not queued")
        promise(combination[-1] == name, "the culprit is not the last of its combination")
        tree = self.contents[rejection.base] | set(combination)
        if rejection.reason is RejectionReason.CONFLICT:
            promise(any(clash <= tree and name in clash for clash in self.faults.clashes), "merges")
        elif not self.faults.flaky.intersection(tree):
            promise(self.faults.fail(tree), "rejected for a combination that passes")
            failed = [one for one in self.verdicts if name in one.candidates and not one.passed]
            promise(len(failed) >= 2, "rejected without a retry")
            self._judge_smallest(rejection)
        self.rejected[name] = rejection
        self.outcomes.append(True)
        self._leave(name)

    def _judge_smallest(self, rejection: Rejection) -> None:
        """No other of the combination can be left out, except for one that others need."""
        needs = {one.id: one.needs for one in self.arrived}
        combination = set(rejection.combination)
        for one in rejection.combination[:-1]:
            if not any(one in needs[other] for other in combination):
                rest = self.contents[rejection.base] | (combination - {one})
                promise(not self.faults.fail(rest), "a smaller combination fails as well")

    def _strand(self, name: str) -> None:
        needs = next(one.needs for one in self.queue if one.id == name)
        gone = self.rejected.keys() | self.cancelled | self.stranded
        promise(needs & gone, "sent to wait though all it needs is here")
        self.stranded.add(name)
        self._leave(name)

    def _judge_combination(self, check: Check) -> None:
        inside = self.contents[check.base]
        for name in check.candidates:
            one = next(one for one in self.arrived if one.id == name)
            promise(one.needs <= inside, "checked without what it needs")
            inside = inside | {name}
        together = set(check.candidates) - self.contents[self.tip]
        for one in self.queue:
            if one.alone and one.id in together and check.purpose in _FOR_LANDING:
                promise(together - one.needs == {one.id}, "checked in a batch though alone")

    def _find_conflict(self, check: Check) -> Conflict | None:
        base = self.contents[check.base]
        for place, name in enumerate(check.candidates):
            earlier = check.candidates[:place]
            partners = {o for clash in self.faults.clashes if name in clash for o in clash - {name}}
            if partners & base:
                return Conflict(base=check.base, candidate=name, others=())
            if others := tuple(one for one in earlier if one in partners):
                return Conflict(base=check.base, candidate=name, others=others[:1])
        return None

    def _record(self, check: Check, passed: bool) -> None:
        self.verdicts.append(Verdict(base=check.base, candidates=check.candidates, passed=passed))

    def _tree(self, check: Check | Verdict) -> frozenset[str]:
        return self.contents[check.base] | set(check.candidates)

    def _leave(self, name: str) -> None:
        self.queue = [one for one in self.queue if one.id != name]

    @property
    def landed(self) -> list[str]:
        return [one.id for landing in self.landings for one in landing.candidates]
