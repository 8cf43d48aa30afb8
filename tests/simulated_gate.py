"""A gate without git: entries with known faults, and checks that end in any order.

It does the work of the real gate around `step`: merges, runs checks in slots, answers a known tree
from its cache, lands and rejects. It asserts the gate's invariants at each move.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from msgspec.structs import replace

from weft.candidate_records import CheckVerdict, Entry, GateRows, Landing, MergeConflict
from weft.gate.policy.gate_records import (
    Check,
    Combination,
    GateState,
    GateStep,
    Purpose,
    Rejection,
    RejectionReason,
)

Step = Callable[[GateState], GateStep]
Pair = frozenset[str]
_FOR_LANDING = (Purpose.SEARCH, Purpose.UNION)


def make_entry(
    name: str, base: str, needs: Iterable[str] = (), *, alone: bool = False, landed: bool = False
) -> Entry:
    return Entry(
        id=name,
        run="r",
        state="landed" if landed else "queued",
        looked_at=False,
        base=base,
        story=None,
        tasks=(),
        work=(),
        needs=frozenset(needs),
        alone=alone,
    )


def make_verdict(base: str, combination: Combination, *, passed: bool) -> CheckVerdict:
    return CheckVerdict(
        base=base,
        combination=combination,
        purpose="search",
        tree="",
        check_id="",
        commands=(),
        passed=passed,
        seconds=1,
    )


def make_conflict(base: str, entry: str, others: Combination = ()) -> MergeConflict:
    return MergeConflict(base=base, entry=entry, after=others, report="")


def make_landing(old: str, new: str, entries: Combination) -> Landing:
    return Landing(
        run="r",
        sequence=1,
        old=old,
        new=new,
        tree="",
        entries=entries,
        commits=(),
        revision=1,
        every_commit=False,
        state="landed",
    )


def make_rows(
    entries: Iterable[Entry],
    *,
    verdicts: Iterable[CheckVerdict] = (),
    conflicts: Iterable[MergeConflict] = (),
    landings: Iterable[Landing] = (),
    rejected: Iterable[bool] = (),
) -> GateRows:
    return GateRows(
        entries=tuple(entries),
        verdicts=tuple(verdicts),
        conflicts=tuple(conflicts),
        landings=tuple(landings),
        rejected=tuple(rejected),
        revision=1,
        blocked="",
        ended=False,
    )


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
    queue: list[Entry] = field(default_factory=list)
    arrived: list[Entry] = field(default_factory=list)
    verdicts: list[CheckVerdict] = field(default_factory=list)
    conflicts: list[MergeConflict] = field(default_factory=list)
    landings: list[Landing] = field(default_factory=list)
    running: list[Check] = field(default_factory=list)
    rejected: dict[str, Rejection] = field(default_factory=dict)
    cancelled: set[str] = field(default_factory=set)
    stranded: set[str] = field(default_factory=set)
    outcomes: list[bool] = field(default_factory=list)
    runs: list[Check] = field(default_factory=list)
    contents: dict[str, frozenset[str]] = field(default_factory=lambda: {"tip0": frozenset()})
    cache: dict[frozenset[str], list[bool]] = field(default_factory=dict)

    def arrive(self, name: str, needs: Iterable[str] = (), *, alone: bool = False) -> None:
        """Queue an entry, unless it needs an entry that is neither queued nor landed."""
        wanted = set(needs)
        for earlier in self.arrived:
            if earlier.id in wanted:
                wanted |= earlier.needs
        unlanded = frozenset(wanted.difference(self.landed))
        if not unlanded <= {entry.id for entry in self.queue}:
            return
        entry = make_entry(name, self.tip, unlanded, alone=alone)
        self.queue.append(entry)
        self.arrived.append(entry)

    def cancel(self, name: str) -> None:
        if any(entry.id == name for entry in self.queue):
            self.cancelled.add(name)
            self._leave(name)

    def crash(self) -> None:
        """Lose the running checks; only recorded facts are left."""
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
        if passed and not known and self.faults.flaky.intersection(check.combination):
            passed = self.chance.random() < 0.5
        known.append(passed)
        self._record(check, passed)

    def state(self) -> GateState:
        landed = set(self.landed)
        entries = (replace(entry, state="landed") for entry in self.arrived if entry.id in landed)
        rows = make_rows(
            (*entries, *self.queue),
            verdicts=self.verdicts,
            conflicts=self.conflicts,
            landings=self.landings,
            rejected=self.outcomes,
        )
        return GateState(rows=rows, tip=self.tip, slots=self.slots, running=tuple(self.running))

    def settle_down(self) -> None:
        """Follow the plan until only the end of a running check could change it."""
        for _ in range(100_000):
            plan = self.step(self.state())
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
        for name in plan.stranded:
            self._strand(name)
        if plan.land:
            self._land(plan.land)
        for check in plan.start:
            self._start(check)
        return bool(plan.cancel or plan.reject or plan.stranded or plan.land or plan.start)

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
        queued = {entry.id: entry for entry in self.queue}
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
        self.landings.append(make_landing(self.tip, new, names))
        self.tip = new
        self.outcomes += [False] * len(names)
        for name in names:
            self._leave(name)

    def _reject(self, rejection: Rejection) -> None:
        name, combination = rejection.entry, rejection.combination
        promise(any(entry.id == name for entry in self.queue), "rejected one that is not queued")
        promise(combination[-1] == name, "the culprit is not the last of its combination")
        tree = self.contents[rejection.base] | set(combination)
        if rejection.reason is RejectionReason.CONFLICT:
            promise(any(clash <= tree and name in clash for clash in self.faults.clashes), "merges")
        elif not self.faults.flaky.intersection(tree):
            promise(self.faults.fail(tree), "rejected for a combination that passes")
            failed = [
                verdict
                for verdict in self.verdicts
                if name in verdict.combination and not verdict.passed
            ]
            promise(len(failed) >= 2, "rejected without a retry")
            self._judge_smallest(rejection)
        self.rejected[name] = rejection
        self.outcomes.append(True)
        self._leave(name)

    def _judge_smallest(self, rejection: Rejection) -> None:
        """Check that no entry of the combination can be left out, unless another needs it."""
        needs = {entry.id: entry.needs for entry in self.arrived}
        combination = set(rejection.combination)
        for name in rejection.combination[:-1]:
            if not any(name in needs[dependent] for dependent in combination):
                rest = self.contents[rejection.base] | (combination - {name})
                promise(not self.faults.fail(rest), "a smaller combination fails as well")

    def _strand(self, name: str) -> None:
        needs = next(entry.needs for entry in self.queue if entry.id == name)
        gone = self.rejected.keys() | self.cancelled | self.stranded
        promise(needs & gone, "sent to wait though all it needs is here")
        self.stranded.add(name)
        self._leave(name)

    def _judge_combination(self, check: Check) -> None:
        inside = self.contents[check.base]
        for name in check.combination:
            entry = next(entry for entry in self.arrived if entry.id == name)
            promise(entry.needs <= inside, "checked without what it needs")
            inside = inside | {name}
        together = set(check.combination) - self.contents[self.tip]
        for entry in self.queue:
            if entry.alone and entry.id in together and check.purpose in _FOR_LANDING:
                promise(together - entry.needs == {entry.id}, "checked in a batch though alone")

    def _find_conflict(self, check: Check) -> MergeConflict | None:
        base = self.contents[check.base]
        for place, name in enumerate(check.combination):
            earlier = check.combination[:place]
            partners = {o for clash in self.faults.clashes if name in clash for o in clash - {name}}
            if partners & base:
                return make_conflict(check.base, name)
            if others := tuple(entry for entry in earlier if entry in partners):
                return make_conflict(check.base, name, others[:1])
        return None

    def _record(self, check: Check, passed: bool) -> None:
        self.verdicts.append(make_verdict(check.base, check.combination, passed=passed))

    def _tree(self, check: Check) -> frozenset[str]:
        return self.contents[check.base] | set(check.combination)

    def _leave(self, name: str) -> None:
        self.queue = [entry for entry in self.queue if entry.id != name]

    @property
    def landed(self) -> list[str]:
        return [entry for landing in self.landings for entry in landing.entries]
