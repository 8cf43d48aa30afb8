"""How many checks the gate runs, and for how long, beside what theory asks for.

To find every bad one of N candidates takes N·H(p) checks at least. Simulated: a check takes one
unit of time, merging and landing none. Walls run until the last candidate is settled, so they
hold the checks of unions and the retries of culprits; the number of runs leaves retries out.
"""

from __future__ import annotations

import functools
import math
import random
import statistics
from dataclasses import dataclass

from msgspec.structs import replace

from bench.figures import figure
from weft.gate.policy.check_records import (
    Check,
    GateScene,
    GateStep,
    PlannedLanding,
    Purpose,
    QueuedCandidate,
    Verdict,
)
from weft.gate.policy.next_step import step
from weft.gate.policy.odds import estimate

_SEEDS = 100
_RETRIES = (Purpose.RETRY, Purpose.BLAME)


@dataclass(frozen=True, kw_only=True)
class Course:
    """How one queue was settled."""

    runs: int  # without retries
    wall: int


@functools.cache
def courses(count: int, odds: float, slots: int) -> list[Course]:
    return [_settle(random.Random(seed), count, odds, slots) for seed in range(_SEEDS)]


def _settle(chance: random.Random, count: int, odds: float, slots: int) -> Course:
    queue = tuple(QueuedCandidate(id=str(number), base="0") for number in range(count))
    bad = {one.id for one in queue if chance.random() < odds}
    scene = GateScene(tip="0", queue=queue, slots=slots, odds=estimate(()))
    outcomes: list[bool] = []
    runs = wall = 0
    while scene.queue:
        plan = step(scene)
        outcomes += [False] * len(plan.land) + [True] * len(plan.reject)
        runs += sum(check.purpose not in _RETRIES for check in plan.start)
        scene = replace(_follow(scene, plan), odds=estimate(outcomes))
        if not (plan.land or plan.reject or plan.cancel):
            wall += 1
            ended = tuple(_verdict(check, bad) for check in scene.running)
            scene = replace(scene, running=(), verdicts=scene.verdicts + ended)
    assert {one.id for landing in scene.landings for one in landing.candidates}.isdisjoint(bad)
    return Course(runs=runs, wall=wall)


def _follow(scene: GateScene, plan: GateStep) -> GateScene:
    landed = tuple(one for one in scene.queue if one.id in plan.land)
    gone = {*plan.land, *(one.candidate for one in plan.reject)}
    tip = f"{scene.tip}+" if landed else scene.tip
    landing = PlannedLanding(old=scene.tip, new=tip, candidates=landed)
    return replace(
        scene,
        tip=tip,
        landings=(*scene.landings, landing) if landed else scene.landings,
        queue=tuple(one for one in scene.queue if one.id not in gone),
        running=(*(one for one in scene.running if one not in plan.cancel), *plan.start),
    )


def _verdict(check: Check, bad: set[str]) -> Verdict:
    passed = bad.isdisjoint(check.candidates)
    return Verdict(base=check.base, candidates=check.candidates, passed=passed)


def fewest_runs(count: int, odds: float) -> float:
    return -count * (odds * math.log2(odds) + (1 - odds) * math.log2(1 - odds))


@figure("gate_runs_ratio", "ratio", at_most=1.15)
def gate_runs_ratio() -> float:
    return statistics.mean(one.runs for one in courses(50, 0.1, 1)) / fewest_runs(50, 0.1)


@figure("gate_wall_ratio", "ratio", at_most=1.5)
def gate_wall_ratio() -> float:
    return statistics.mean(one.wall for one in courses(200, 0.1, 8)) / (fewest_runs(200, 0.1) / 8)


@figure("gate_vs_serial", "ratio", at_least=7)
def gate_vs_serial() -> float:
    """Checking one after the other takes as many units as there are candidates."""
    return 50 / statistics.mean(one.wall for one in courses(50, 0.05, 8))
