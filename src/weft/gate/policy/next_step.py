"""The gate's next step: entries to land or reject, and checks to start or cancel.

`step` is a function of recorded facts alone. Any process may call it after every event: the facts
tell all earlier actions, so a new process continues where the last stopped. Only a tree that passed
lands.

The steps end. Every check is of a tree without a verdict, or with a single verdict, a failure.
There are finitely many of those on a tip, and only a landing makes a new tip. The steps also go
on: a queued entry is unknown, and is checked; or known to be good, and is in a front that is
checked; or in a failed tree, which is halved until it has a culprit; or a culprit, which is tried
until it passes or is rejected.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate, takewhile
from typing import Final

from msgspec.structs import replace

from weft.gate.policy import batches
from weft.gate.policy.batches import Slots
from weft.gate.policy.gate_records import (
    Check,
    Combination,
    GateState,
    GateStep,
    Rejection,
    RejectionReason,
)
from weft.gate.policy.queue_analysis import QueueAnalysis, analyse_queue

_FIRST_TRIES: Final = 2  # first checks before a rejection


def step(state: GateState) -> GateStep:
    """Return the next step, with as few checks as possible."""
    return _step(state, _longest_passed, _fill)


def step_every_commit(state: GateState) -> GateStep:
    """Return the next step where every commit of trunk must pass by itself."""
    return _step(state, _each_passed, _fill_with_prefixes)


def _step(
    state: GateState,
    landable: Callable[[QueueAnalysis], Combination],
    fill: Callable[[Slots], None],
) -> GateStep:
    queue = analyse_queue(state)
    before_review = {entry.id for entry in state.before_review}
    running = [check for check in state.running if before_review.isdisjoint(check.combination)]
    useful = [check for check in running if queue.is_useful(check)]
    slots = Slots(state.slots, queue, useful)
    land = landable(queue)
    if not land:  # the tip after a landing is the better base for new checks
        fill(slots)
    decided = GateStep(
        land=land,
        reject=tuple(queue.rejections),
        stranded=queue.stranded,
        start=tuple(slots.started),
        cancel=tuple(check for check in running if check not in useful),
    )
    return _add_first_checks(state, decided) if before_review else decided


def _longest_passed(queue: QueueAnalysis) -> Combination:
    """Return the longest front that passed as it is."""
    passed = queue.evidence.passed_on_tip()
    fronts = (tree for tree in passed if tree == queue.front[: len(tree)])
    return max(fronts, key=len, default=())


def _each_passed(queue: QueueAnalysis) -> Combination:
    """Return the longest front of which every shorter front passed too."""
    fronts = accumulate((entry,) for entry in queue.front)
    landable: Combination = ()
    for front in takewhile(lambda front: queue.evidence.passed((queue.tip, front)), fronts):
        landable = front
    return landable


def _fill(slots: Slots) -> None:
    """Start the most telling checks first; the later kinds use slots that would idle."""
    trials = slots.queue.trials
    slots.start(batches.failed_halves(slots))
    slots.start(trials[: slots.free_for_trials])
    slots.start(batches.overdue_union(slots))
    if slots.size > 1:
        slots.start(batches.whole_front(slots))
    slots.start(batches.unknown_batches(slots))
    slots.start(trials)
    slots.start(batches.idle_unions(slots))
    slots.start(batches.suspect_batches(slots))


def _fill_with_prefixes(slots: Slots) -> None:
    slots.start(slots.queue.trials)
    slots.start(batches.every_prefix(slots))


def _add_first_checks(state: GateState, decided: GateStep) -> GateStep:
    """Add the actions for entries that are reviewed or judged before they land.

    Each is checked by itself on the tip at which it joined, and once more if it fails. Their
    checks get slots that the queue leaves free.
    """
    passed: list[str] = []
    rejected: list[Rejection] = []
    missing: list[Check] = []
    for entry in state.before_review:
        base, alone = entry.base or state.tip, (entry.id,)
        verdicts = [
            verdict.passed
            for verdict in state.rows.verdicts
            if (verdict.base, verdict.combination) == (base, alone)
        ]
        conflicts = [
            conflict
            for conflict in state.rows.conflicts
            if (conflict.base, conflict.entry) == (base, entry.id)
        ]
        if conflicts or (len(verdicts) >= _FIRST_TRIES and not any(verdicts)):
            reason = RejectionReason.CONFLICT if conflicts else RejectionReason.RED
            rejected.append(Rejection(reason=reason, base=base, combination=alone))
        elif any(verdicts):
            passed.append(entry.id)
        else:
            missing.append(Check(base=base, combination=alone, nth=len(verdicts)))
    changes = decided.land or decided.reject or decided.stranded
    free = state.slots - len(state.running) - len(decided.start)
    room = 0 if changes else max(0, free)
    start = [check for check in missing if check not in state.running][:room]
    return replace(
        decided,
        pass_on=tuple(passed),
        reject=(*decided.reject, *rejected),
        start=(*decided.start, *start),
    )
