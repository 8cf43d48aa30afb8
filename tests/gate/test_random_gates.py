"""Random sets of good, bad, clashing and flaky candidates through the real gate and real git."""

from __future__ import annotations

import os
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from gate.gate_run import Stage, drive, run_git, task
from weft.store.gate import read_gate

SEEDS = range(200 if "WEFT_CHAOS" in os.environ else 3)
CHECK = """
for file in c/*; do
  while read -r word other; do
    case $word in
      bad) echo "$file is bad"; exit 1;;
      not) test ! -e c/$other || { echo "$file not with $other"; exit 1; };;
      flaky) mkdir $other 2>/dev/null && exit 1;;
    esac
  done < $file
done
exit 0
"""


@dataclass
class Brought:
    name: str
    bad: bool = False
    flaky: bool = False
    apart: set[str] = field(default_factory=set)  # fails together with them
    conflicts: set[str] = field(default_factory=set)  # does not merge with them

    def is_kept_out_by(self, landed: set[str]) -> bool:
        return self.bad or bool((self.apart | self.conflicts) & landed)


def invent(chance: random.Random) -> list[Brought]:
    """Candidates in the order they arrive. Clashes are mutual.

    One flaky one at most: of two, each may fail once with the other and once alone.
    """
    found = [Brought(f"t{number}") for number in range(chance.randint(3, 7))]
    for one in found:
        one.bad = chance.random() < 0.2
    chance.choice(found).flaky = chance.random() < 0.5
    for _ in range(chance.randint(0, 2)):
        one, other = chance.sample(found, 2)
        one.apart.add(other.name)
        other.apart.add(one.name)
    if chance.random() < 0.5:
        group = chance.sample(found, chance.randint(2, 3))
        for one in group:
            one.conflicts = {other.name for other in group if other is not one}
    return found


def files(one: Brought, home: Path) -> dict[str, str | None]:
    lines = ["bad it"] * one.bad + [f"flaky {home}/{one.name}"] * one.flaky
    lines += [f"not {other}" for other in sorted(one.apart)]
    made: dict[str, str | None] = {f"c/{one.name}": "".join(f"{line}\n" for line in lines)}
    return {**made, "shared": f"{one.name}\n"} if one.conflicts else made


@pytest.mark.chaos
@pytest.mark.parametrize("seed", SEEDS)
def test_everything_good_lands_and_nothing_bad_does(stage: Stage, home: Path, seed: int) -> None:
    chance = random.Random(seed)
    brought = invent(chance)
    stage.submit([task(one.name, f"c/{one.name}") for one in brought])
    late = chance.randint(0, len(brought))
    for one in brought[:late]:
        stage.bring(one.name, files(one, home))
    slots, every_commit = chance.choice([1, 2, 3]), chance.random() < 0.3

    def is_settled() -> bool:
        if late < len(brought):
            return len(stage.events("checked")) > 0 or late == 0
        return set(stage.states().values()) <= {"done", "ready"}

    how: dict[str, Any] = {"run": ("sh", "-c", CHECK), "slots": slots, "every_commit": every_commit}
    drive(stage, is_settled, **how)
    for one in brought[late:]:
        stage.bring(one.name, files(one, home))
    late = len(brought)
    drive(stage, is_settled, **how)
    judge(stage, brought)
    assert {one.every_commit for one in read_gate(stage.store, "r1").landings} <= {every_commit}
    if every_commit:
        judge_every_commit(stage)


def judge(stage: Stage, brought: list[Brought]) -> None:
    stage.judge()
    states = stage.states()
    landed = {name for name, state in states.items() if state == "done"}
    order = [subject.removeprefix("Change ") for subject in stage.log()]
    assert set(order) == landed
    for one in brought:
        if one.name in landed:
            assert not one.is_kept_out_by(landed), f"{one} landed"
            continue
        assert one.is_kept_out_by(landed), f"{one} did not land"
        others = set(stage.others(one.name))
        if one.bad:
            assert not others or others & one.conflicts, "the reason is its own"
        else:
            assert len(others) <= 1, "the smallest combination"
            assert others <= (one.apart | one.conflicts) & landed
        for other in others & (one.apart - one.conflicts):
            told = stage.reason(one.name)
            assert f"not with {other}" in told or f"not with {one.name}" in told
    if not any(one.flaky or one.apart for one in brought):
        assert order == [one.name for one in brought if one.name in landed], "as they came"


def judge_every_commit(stage: Stage) -> None:
    passed = {one.tree for one in read_gate(stage.store, "r1").verdicts if one.passed}
    trees = run_git(stage.root, "log", "--format=%T", f"{stage.base}..{stage.trunk}").split()
    assert set(trees) <= passed
