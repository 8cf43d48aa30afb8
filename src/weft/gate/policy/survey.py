"""Who stands where at the gate: culprits, those held back, and the line of the rest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile

from msgspec import Struct

from weft import graph
from weft.gate.policy.blame import judge
from weft.gate.policy.check_records import (
    Check,
    Combination,
    GateScene,
    QueuedCandidate,
    Rejection,
    RejectionReason,
)
from weft.gate.policy.evidence import CheckFailure, Evidence, Trunk


class Survey(Struct, frozen=True, kw_only=True):
    evidence: Evidence
    proven: frozenset[str]  # landed, or part of a tree that passed
    candidates: Mapping[str, QueuedCandidate]  # queued or landed
    ready: Combination  # may land, in this order
    front: Combination  # the first of them, which may land together
    failures: Sequence[CheckFailure]  # whose culprit is still to be found
    trials: Sequence[Check]  # what culprits are waiting for
    rejections: Sequence[Rejection]
    stranded: Combination  # need a candidate that is gone


def survey(scene: GateScene) -> Survey:
    trunk = Trunk(scene.tip, scene.landings)
    evidence = Evidence(trunk, scene.verdicts)
    queue = in_order(scene.queue)
    candidates = trunk.landed | {one.id: one for one in queue}
    stranded = _stranded(scene, queue)
    failures = evidence.failures(candidates.keys() - stranded)
    culprits = _culprits(failures, {one.id for one in queue})
    proven = evidence.proven() | trunk.landed.keys()
    held, clashes = _clashes(scene, trunk, stranded)
    judged = [
        judge(candidates[one], of, evidence, candidates)
        for one, of in culprits.items()
        if one not in clashes
    ]
    aside = culprits.keys() | held | stranded | clashes.keys()
    # What builds on a candidate that must be alone could only be checked in a batch with it.
    unavailable = aside | {one.id for one in queue if one.alone}
    ready = tuple(one.id for one in queue if one.id not in aside and not one.needs & unavailable)
    return Survey(
        evidence=evidence,
        proven=proven,
        candidates=candidates,
        ready=ready,
        front=_front(ready, candidates),
        failures=_open(failures, trunk.landed.keys() | ready, proven, trunk.tip),
        trials=[one for one in judged if isinstance(one, Check)],
        rejections=[*clashes.values(), *(one for one in judged if isinstance(one, Rejection))],
        stranded=tuple(one.id for one in queue if one.id in stranded),
    )


def in_order(queue: Sequence[QueuedCandidate]) -> list[QueuedCandidate]:
    """By needs, then by arrival."""
    number = {one.id: index for index, one in enumerate(queue)}
    following: list[list[int]] = [[] for _ in queue]
    for index, one in enumerate(queue):
        for need in one.needs & number.keys():
            following[number[need]].append(index)
    return [queue[index] for index in graph.order(following)]


def _stranded(scene: GateScene, queue: Sequence[QueuedCandidate]) -> set[str]:
    here = {one.id for one in queue}
    here |= {one.id for landing in scene.landings for one in landing.candidates}
    return {one.id for one in queue if not one.needs <= here}


def _culprits(failures: Iterable[CheckFailure], queued: set[str]) -> dict[str, list[CheckFailure]]:
    """The only suspects of failures, each with those failures."""
    culprits: dict[str, list[CheckFailure]] = {}
    for failure in failures:
        if len(failure.suspects) == 1 and failure.suspects[0] in queued:
            culprits.setdefault(failure.suspects[0], []).append(failure)
    return culprits


def _clashes(
    scene: GateScene, trunk: Trunk, stranded: set[str]
) -> tuple[set[str], dict[str, Rejection]]:
    """Candidates held back by a conflict with one still queued, and those that cannot merge."""
    queued = {one.id for one in scene.queue} - stranded
    held: set[str] = set()
    rejected: dict[str, Rejection] = {}
    for conflict in scene.conflicts:
        if conflict.candidate not in queued or conflict.base not in trunk:
            continue
        if any(one not in queued and one not in trunk.landed for one in conflict.others):
            continue
        if any(one in queued for one in conflict.others):
            held.add(conflict.candidate)
            continue
        rejected[conflict.candidate] = Rejection(
            candidate=conflict.candidate,
            reason=RejectionReason.CONFLICT,
            base=conflict.base,
            combination=(*conflict.others, conflict.candidate),
        )
    return held, rejected


def _front(ready: Combination, candidates: Mapping[str, QueuedCandidate]) -> Combination:
    if ready and candidates[ready[0]].alone:
        return ready[:1]
    return tuple(takewhile(lambda one: not candidates[one].alone, ready))


def _open(
    failures: Sequence[CheckFailure], standing: set[str], proven: frozenset[str], tip: str
) -> list[CheckFailure]:
    """Failures of those standing in line or landed, each the narrowest for its suspects.

    Any other may be the work of a culprit already known, or of one set aside. And one on an
    older tip, all of whose suspects have passed elsewhere since, says nothing about trunk.
    """
    unexplained = [
        one
        for one in failures
        if len(one.suspects) > 1
        and standing.issuperset(one.candidates)
        and (one.base == tip or not proven.issuperset(one.suspects))
    ]
    suspects = [set(one.suspects) for one in unexplained]
    return [
        one
        for one, its in zip(unexplained, suspects, strict=True)
        if not any(narrower < its for narrower in suspects)
    ]
