"""The gate's next step: what to land, to reject, to check and to cancel.

`step` is a function of recorded facts alone. It may be called after every event, by any process,
as often as one likes: what was done before is known from the facts, so a restart goes on where
the last process was. Only a tree that passed lands. Merging, running checks and moving trunk are
left to the gate.

It ends. Every check it asks for is of a tree that has no verdict yet, or exactly one, a failure;
there are finitely many of those on a tip, and only landing makes a new tip. And it goes on: a
candidate that is queued is either unknown, and then checked; or known to be good, and then part
of a front that is checked; or in a failed tree, which is halved until it has a culprit; or a
culprit, which is tried until it passes or is rejected.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, takewhile
from typing import Final

from weft.gate.policy import combinations
from weft.gate.policy.check_records import Check, Combination, GateScene, GateStep, Purpose
from weft.gate.policy.combinations import CandidateLine
from weft.gate.policy.evidence import Tree
from weft.gate.policy.survey import Survey, survey

_TRIALS: Final = (Purpose.RETRY, Purpose.BLAME)
_TRIAL_SHARE: Final = 4
"""Under load one in so many slots tries culprits. With 10 % bad ones that keeps up with them."""


def step(scene: GateScene) -> GateStep:
    """What follows from the facts, with as few checks as possible."""
    return _step(scene, _longest_passed, _fill)


def step_every_commit(scene: GateScene) -> GateStep:
    """The same where every commit of trunk must have passed by itself."""
    return _step(scene, _each_passed, _fill_one_by_one)


class _Slots:
    """The checks that run, and those to start beside them."""

    def __init__(self, scene: GateScene, found: Survey, running: Sequence[Check]) -> None:
        self.size = scene.slots
        self._odds = scene.odds
        self._found = found
        self._running = list(running)
        self.started: list[Check] = []

    @property
    def free(self) -> int:
        return max(0, self.size - len(self._running))

    def room_for_trials(self) -> int:
        running = sum(check.purpose in _TRIALS for check in self._running)
        return max(0, math.ceil(self.size / _TRIAL_SHARE) - running)

    def start(self, checks: Iterable[Check]) -> None:
        """Start as many as fit of those that neither run nor have their verdict."""
        evidence = self._found.evidence
        useful = (check for check in checks if _is_useful(check, self._found))
        taken = {(evidence.tree_of(one), one.nth) for one in self._running}
        for check in useful:
            if not self.free:
                return
            tree = evidence.tree_of(check)
            if evidence.tally(tree).runs == check.nth and (tree, check.nth) not in taken:
                taken.add((tree, check.nth))
                self._running.append(check)
                self.started.append(check)

    def line(self) -> CandidateLine:
        return CandidateLine(
            ready=self._found.ready,
            front=self._found.front,
            candidates=self._found.candidates,
            evidence=self._found.evidence,
            proven=self._found.proven,
            failures=self._found.failures,
            searched=self._trees(Purpose.SEARCH),
            joined=self._trees(Purpose.UNION),
            odds=self._odds,
        )

    def _trees(self, purpose: Purpose) -> list[Tree]:
        tree_of = self._found.evidence.tree_of
        return [tree_of(check) for check in self._running if check.purpose is purpose]


def _step(
    scene: GateScene,
    landable: Callable[[Survey], Combination],
    fill: Callable[[_Slots, Survey], None],
) -> GateStep:
    found = survey(scene)
    useful = [check for check in scene.running if _is_useful(check, found)]
    slots = _Slots(scene, found, useful)
    land = landable(found)
    if not land:  # what to check next is better said on the tip that landing makes
        fill(slots, found)
    return GateStep(
        land=land,
        reject=tuple(found.rejections),
        wait=found.stranded,
        start=tuple(slots.started),
        cancel=tuple(check for check in scene.running if check not in useful),
    )


def _fill(slots: _Slots, found: Survey) -> None:
    """Use the slots for what tells most; the later ones only if they would idle."""
    slots.start(combinations.halving(slots.line()))
    slots.start(found.trials[: slots.room_for_trials()])
    slots.start(combinations.overdue_union(slots.line(), slots.size))
    if slots.size > 1:
        slots.start(combinations.whole(slots.line()))
    slots.start(combinations.batches(slots.line(), slots.free))
    slots.start(found.trials)
    slots.start(combinations.union(slots.line()))
    slots.start(combinations.hopeful(slots.line()))
    slots.start(combinations.ahead(slots.line(), slots.free))


def _fill_one_by_one(slots: _Slots, found: Survey) -> None:
    slots.start(found.trials)
    slots.start(combinations.one_by_one(slots.line(), slots.size))


def _longest_passed(found: Survey) -> Combination:
    """The longest front that passed as it is."""
    passed = found.evidence.passed_on_tip()
    fronts = (one for one in passed if one == found.front[: len(one)])
    return max(fronts, key=len, default=())


def _each_passed(found: Survey) -> Combination:
    """The longest front of which every shorter one passed too."""
    tip = found.evidence.trunk.tip
    fronts = accumulate((one,) for one in found.front)
    landable: Combination = ()
    for front in takewhile(lambda one: found.evidence.passed((tip, one)), fronts):
        landable = front
    return landable


def _is_useful(check: Check, found: Survey) -> bool:
    """Whether its verdict would say something new about candidates that may land."""
    evidence = found.evidence
    if check.base not in evidence.trunk:
        return False
    if check.purpose in _TRIALS:
        wanted = {(evidence.tree_of(one), one.nth) for one in found.trials}
        return (evidence.tree_of(check), check.nth) in wanted
    if set(check.candidates).difference(found.ready, evidence.trunk.landed):
        return False
    return not any(failure.fails_in(check.candidates) for failure in found.failures)
