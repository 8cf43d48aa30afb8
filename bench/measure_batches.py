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
from weft.candidate_records import CheckVerdict, Entry, GateRows, Landing
from weft.gate.policy.gate_records import Check, GateState, GateStep, Purpose
from weft.gate.policy.next_step import step

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
    entries = tuple(_entry(str(number)) for number in range(count))
    bad = {entry.id for entry in entries if chance.random() < odds}
    state = GateState(rows=_rows(entries), tip="0", slots=slots)
    runs = wall = 0
    while state.queue:
        plan = step(state)
        runs += sum(check.purpose not in _RETRIES for check in plan.start)
        state = _follow(state, plan)
        if not (plan.land or plan.reject or plan.cancel):
            wall += 1
            ended = tuple(_verdict(check, bad) for check in state.running)
            rows = replace(state.rows, verdicts=state.rows.verdicts + ended)
            state = replace(state, running=(), rows=rows)
    assert {entry for landing in state.rows.landings for entry in landing.entries}.isdisjoint(bad)
    return Course(runs=runs, wall=wall)


def _follow(state: GateState, plan: GateStep) -> GateState:
    rejected = {rejection.entry for rejection in plan.reject}
    tip = f"{state.tip}+" if plan.land else state.tip
    landings = (_landing(state.tip, tip, plan.land),) if plan.land else ()
    rows = replace(
        state.rows,
        entries=tuple(
            replace(entry, state="landed") if entry.id in plan.land else entry
            for entry in state.rows.entries
            if entry.id not in rejected
        ),
        landings=state.rows.landings + landings,
        rejected=(*state.rows.rejected, *([False] * len(plan.land)), *([True] * len(rejected))),
    )
    running = (*(check for check in state.running if check not in plan.cancel), *plan.start)
    return replace(state, rows=rows, tip=tip, running=running)


def _rows(entries: tuple[Entry, ...]) -> GateRows:
    return GateRows(
        entries=entries,
        verdicts=(),
        conflicts=(),
        landings=(),
        rejected=(),
        revision=1,
        blocked="",
        ended=False,
    )


def _entry(name: str) -> Entry:
    return Entry(
        id=name,
        run="r",
        state="queued",
        looked_at=False,
        base="0",
        story=None,
        tasks=(),
        work=(),
        needs=frozenset(),
        alone=False,
    )


def _landing(old: str, new: str, entries: tuple[str, ...]) -> Landing:
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


def _verdict(check: Check, bad: set[str]) -> CheckVerdict:
    return CheckVerdict(
        base=check.base,
        combination=check.combination,
        purpose=check.purpose,
        tree="",
        check_id="",
        commands=(),
        passed=bad.isdisjoint(check.combination),
        seconds=1,
    )


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
