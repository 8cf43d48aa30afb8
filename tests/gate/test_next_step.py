"""The gate's strategy: what lands, what goes back, and how few checks that takes."""

from __future__ import annotations

import math
import random
from itertools import takewhile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from cases import each_case
from simulated_gate import (
    Broken,
    Faults,
    Gate,
    Step,
    make_conflict,
    make_entry,
    make_landing,
    make_rows,
    make_verdict,
)
from weft.gate.policy.batches import batch_size, split_point
from weft.gate.policy.gate_records import (
    Check,
    GateState,
    GateStep,
    Purpose,
    Rejection,
    RejectionReason,
)
from weft.gate.policy.next_step import step, step_every_commit
from weft.gate.policy.queue_analysis import FIRST_GUESS, analyse_queue, estimate_odds, sort_by_needs


def names(count: int) -> list[str]:
    return [f"c{number:02}" for number in range(count)]


def random_faults(chance: random.Random, ids: list[str], kinds: str) -> Faults:
    """Some of each kind asked for: bad, pairs, clashes, flaky."""

    def some(share: float) -> frozenset[str]:
        return frozenset(one for one in ids if chance.random() < share)

    def pairs(count: int) -> frozenset[frozenset[str]]:
        return frozenset(frozenset(chance.sample(ids, 2)) for _ in range(count))

    few = chance.randint(1, 3) if len(ids) > 1 else 0
    return Faults(
        bad=some(chance.choice((0.05, 0.1, 0.4))) if "b" in kinds else frozenset(),
        pairs=pairs(few) if "p" in kinds else frozenset(),
        clashes=pairs(few) if "c" in kinds else frozenset(),
        flaky=some(0.1) if "f" in kinds else frozenset(),
    )


def random_gate(seed: int, kinds: str, strategy: Step) -> Gate:
    chance = random.Random(seed)
    ids = names(chance.randint(1, 40))
    gate = Gate(random_faults(chance, ids, kinds), chance.randint(1, 9), strategy, chance)
    for number, name in enumerate(ids):
        needs = [one for one in ids[:number] if "n" in kinds and chance.random() < 1 / (4 * number)]
        gate.arrive(name, needs, alone="a" in kinds and chance.random() < 0.1)
    return gate


def blameless(gate: Gate) -> list[str]:
    """All that have to land, in order: no fault of theirs nor of any they need."""
    faults = gate.faults
    order = [one.id for one in gate.arrived]
    pairs = [pair for pair in faults.pairs | faults.clashes if pair <= set(order)]
    later = {max(pair, key=order.index) for pair in pairs}
    if faults.flaky:  # may cost others their place in the line, and then the earlier is the later
        later = {one for pair in pairs for one in pair}
    faulty = faults.bad | faults.flaky | later | gate.cancelled
    return [one.id for one in gate.arrived if one.id not in faulty and not faulty & set(one.needs)]


def judge_end(gate: Gate) -> None:
    """All is settled: the blameless landed, the bad did not, nobody was lost."""
    landed = gate.landed
    assert set(blameless(gate)) <= set(landed)
    assert not gate.faults.bad & set(landed)
    out = set(landed) | gate.rejected.keys() | gate.stranded | gate.cancelled
    assert out == {one.id for one in gate.arrived}
    assert len(landed) == len(set(landed))
    # What was never suspected or held back lands in order.
    if not (gate.faults.flaky or gate.faults.clashes or any(one.alone for one in gate.arrived)):
        order = [one.id for one in sort_by_needs(gate.arrived) if one.id in blameless(gate)]
        assert [one for one in landed if one in order] == order


def most_runs(gate: Gate) -> float:
    """A generous bound: every fault costs a search, and every candidate a check or two."""
    faults = gate.faults
    count = len(gate.arrived)
    each = 4 + 2 * math.log2(count + 1)
    marked = len(faults.bad) + len(faults.pairs) + len(faults.clashes) + 2 * len(faults.flaky)
    return count + each * (1 + marked)


def random_history(seed: int, kinds: str, strategy: Step) -> Gate:
    """Candidates come and go, slots change, the gate crashes, somebody moves trunk."""
    chance = random.Random(seed)
    ids = names(chance.randint(2, 40))
    gate = Gate(random_faults(chance, ids, kinds), chance.randint(1, 9), strategy, chance)
    coming = list(ids)
    while coming:
        for _ in range(chance.randint(1, 8)):
            if coming:
                queued = [one.id for one in gate.queue]
                needs = chance.sample(queued, 1) if queued and chance.random() < 0.1 else []
                gate.arrive(coming.pop(0), needs, alone=chance.random() < 0.05)
        for _ in range(chance.randint(0, 6)):
            gate.settle_down()
            if gate.running:
                gate.finish(chance.choice(gate.running))
        match chance.randint(0, 9):
            case 0:
                gate.crash()
            case 1:
                gate.cancel(chance.choice(ids))
            case 2:
                gate.slots = chance.randint(0, 9)
            case 3:
                gate.somebody_moves_trunk()
    gate.slots = gate.slots or 1
    return gate


@pytest.mark.parametrize("kinds", ["b", "bp", "bpc", "bpcf"])
@given(seed=st.integers(0, 2**32))
@settings(max_examples=40)
def test_whatever_happens_meanwhile_all_that_is_good_lands(kinds: str, seed: int) -> None:
    gate = random_history(seed, kinds, step)
    gate.run_to_the_end()
    judge_end(gate)


@pytest.mark.parametrize("strategy", [step, step_every_commit])
@pytest.mark.parametrize("kinds", ["b", "bp", "bpn", "bpcfn", "bpcna"])
@given(seed=st.integers(0, 2**32))
@settings(max_examples=20)
def test_all_that_is_good_lands_and_nothing_bad_does(kinds: str, strategy: Step, seed: int) -> None:
    gate = random_gate(seed, kinds, strategy)
    gate.run_to_the_end()
    judge_end(gate)
    assert len(gate.runs) <= most_runs(gate)


@given(seed=st.integers(0, 2**32))
@settings(max_examples=20)
def test_where_every_commit_must_pass_each_was_checked_by_itself(seed: int) -> None:
    gate = random_gate(seed, "bpcf", step_every_commit)
    gate.run_to_the_end()
    for landing in gate.landings:
        tree = gate.contents[landing.old]
        for entry in landing.entries:
            tree = tree | {entry}
            assert True in gate.cache[tree]


def lands_what_was_found_good_apart(state: GateState) -> GateStep:
    queue = analyse_queue(state)
    good = tuple(takewhile(lambda entry: entry in queue.proven, queue.front))
    return replace(step(state), land=good)


def takes_any_tip_for_this_one(state: GateState) -> GateStep:
    here = tuple(replace(verdict, base=state.tip) for verdict in state.rows.verdicts)
    return step(replace(state, rows=replace(state.rows, verdicts=here)))


def rejects_at_once(state: GateState) -> GateStep:
    plan = step(state)
    retried = [check for check in plan.start if check.purpose is Purpose.RETRY]
    return replace(
        plan,
        start=tuple(check for check in plan.start if check not in retried),
        reject=tuple(
            Rejection(reason=RejectionReason.RED, base=check.base, combination=check.combination)
            for check in retried
        ),
    )


def forgets_needs(state: GateState) -> GateStep:
    entries = tuple(replace(entry, needs=frozenset()) for entry in state.rows.entries)
    return step(replace(state, rows=replace(state.rows, entries=entries)))


@each_case(
    ("weakened", "kinds", "broken"),
    [
        (lands_what_was_found_good_apart, "", "landed a tree that never passed"),
        (takes_any_tip_for_this_one, "bp", "landed a tree that never passed"),
        (rejects_at_once, "b", "rejected without a retry"),
        (forgets_needs, "bn", "checked without what it needs"),
    ],
)
def test_a_weakened_strategy_is_caught(weakened: Step, kinds: str, broken: str) -> None:
    def run_some() -> None:
        for seed in range(60):
            random_gate(seed, kinds, weakened).run_to_the_end()

    with pytest.raises(Broken, match=broken):
        run_some()


def test_without_the_retry_a_flake_would_cost_good_candidates_their_place() -> None:
    def run_some() -> None:
        for seed in range(60):
            gate = random_gate(seed, "f", rejects_at_once)
            gate.run_to_the_end()
            judge_end(gate)

    with pytest.raises(AssertionError):
        run_some()


def ended(faults: Faults, ids: list[str], slots: int) -> Gate:
    gate = Gate(faults, slots, step)
    for name in ids:
        gate.arrive(name)
    gate.run_to_the_end()
    return gate


@each_case("slots", [1, 2, 8])
def test_two_that_pass_apart_and_fail_together_send_the_later_back(slots: int) -> None:
    ids = names(30)
    gate = ended(Faults(pairs=frozenset({frozenset({"c03", "c21"})})), ids, slots)
    assert gate.landed == [one for one in ids if one != "c21"]
    assert gate.rejected["c21"].combination == ("c03", "c21")


def test_three_that_only_fail_together_are_all_named() -> None:
    class Three(Faults):
        def fail(self, tree: frozenset[str]) -> bool:
            return tree >= {"c02", "c05", "c11"}

    gate = ended(Three(), names(14), 4)
    assert gate.rejected["c11"].combination == ("c02", "c05", "c11")


def test_one_that_is_bad_by_itself_is_named_alone() -> None:
    gate = ended(Faults(bad=frozenset({"c09"})), names(12), 1)
    assert gate.rejected["c09"].combination == ("c09",)
    assert [check.purpose for check in gate.runs].count(Purpose.RETRY) == 1


def test_a_flake_is_tried_again_and_lands() -> None:
    failed = make_verdict("t", ("a",), passed=False)
    rows = make_rows([make_entry("a", "t")], verdicts=[failed])
    state = GateState(rows=rows, tip="t", slots=1)
    retry = Check(base="t", combination=("a",), nth=1, purpose=Purpose.RETRY)
    assert step(state).start == (retry,)
    passed = replace(rows, verdicts=(failed, replace(failed, passed=True)))
    assert step(replace(state, rows=passed)).land == ("a",)
    plan = step(replace(state, rows=replace(rows, verdicts=(failed, failed))))
    assert [rejection.entry for rejection in plan.reject] == ["a"]


def test_one_in_conflict_is_held_back_until_the_other_landed_or_left() -> None:
    a, b = make_entry("a", "t"), make_entry("b", "t")
    conflicts = [make_conflict("t", "b", ("a",))]
    state = GateState(rows=make_rows([a, b], conflicts=conflicts), tip="t", slots=4)
    assert {check.combination for check in step(state).start} == {("a",)}
    landed = make_rows(
        [replace(a, state="landed"), b],
        conflicts=conflicts,
        landings=[make_landing("t", "t1", ("a",))],
    )
    (rejection,) = step(GateState(rows=landed, tip="t1", slots=4)).reject
    assert (rejection.reason, rejection.combination) == (RejectionReason.CONFLICT, ("a", "b"))
    left = GateState(rows=make_rows([b], conflicts=conflicts), tip="t", slots=4)
    assert {check.combination for check in step(left).start} == {("b",)}


def test_what_needs_a_rejected_one_goes_back_to_wait() -> None:
    gate = Gate(Faults(bad=frozenset({"a"})), 2, step)
    gate.arrive("a")
    gate.arrive("b", ["a"])
    gate.arrive("c", ["b"])
    gate.arrive("d")
    gate.run_to_the_end()
    assert gate.landed == ["d"]
    assert gate.stranded == {"b", "c"}


def test_the_order_is_by_needs_and_then_by_arrival() -> None:
    queue = [
        make_entry("late", "t", {"base"}),
        make_entry("other", "t"),
        make_entry("base", "t"),
    ]
    assert [entry.id for entry in sort_by_needs(queue)] == ["other", "base", "late"]


def test_a_tree_that_was_seen_costs_nothing_again() -> None:
    first = ended(Faults(bad=frozenset({"c04", "c17"})), names(25), 1)
    again = Gate(first.faults, 1, step, cache=first.cache)
    for name in names(25):
        again.arrive(name)
    again.run_to_the_end()
    assert again.landed == first.landed
    assert not again.runs


def test_what_was_checked_on_a_tip_somebody_replaced_counts_for_nothing() -> None:
    passed = make_verdict("t", ("a",), passed=True)
    running = Check(base="t", combination=("a",))
    rows = make_rows([make_entry("a", "t")], verdicts=[passed])
    state = GateState(rows=rows, tip="t", slots=1, running=(running,))
    assert step(state).land == ("a",)
    plan = step(replace(state, tip="foreign"))
    assert not plan.land
    assert plan.cancel == (running,)
    assert [one.base for one in plan.start] == ["foreign"]


def test_a_check_that_runs_stays_exact_when_what_it_starts_with_lands() -> None:
    entries = [make_entry(name, "t", landed=name != "c") for name in "abc"]
    passed = make_verdict("t", ("a", "b", "c"), passed=True)
    landings = [make_landing("t", "t1", ("a", "b"))]
    rows = make_rows(entries, verdicts=[passed], landings=landings)
    state = GateState(rows=rows, tip="t1", slots=1)
    assert step(state).land == ("c",)
    without_a = replace(passed, combination=("b", "c"))
    assert not step(replace(state, rows=replace(rows, verdicts=(without_a,)))).land


def test_no_slots_means_no_checks() -> None:
    state = GateState(rows=make_rows([make_entry("a", "t")]), tip="t", slots=0)
    assert step(state) == GateStep()


@each_case(("odds", "size"), [(0.5, 1), (0.3, 2), (0.1, 7), (0.05, 14), (0.01, 69)])
def test_a_batch_passes_about_every_other_time(odds: float, size: int) -> None:
    assert batch_size(odds) == size


@each_case(
    ("odds", "first"),
    [([0.1] * 7, 3), ([0.1] * 2, 1), ([0.001] * 40, 20), ([0.001] * 20 + [0.1] * 7, 23)],
)
def test_a_failed_batch_is_split_where_the_culprit_is_as_likely_before_as_after(
    odds: list[float], first: int
) -> None:
    assert split_point(odds) == first


def test_the_odds_start_at_a_guess_and_follow_what_was_seen() -> None:
    assert estimate_odds([]) == pytest.approx(FIRST_GUESS)
    assert 0.1 < estimate_odds([True]) < 0.2
    assert estimate_odds([True] * 300) == 0.5
    assert estimate_odds([False] * 300) < 0.02
    assert estimate_odds([True] * 100 + [False] * 100) < estimate_odds([False] * 100 + [True] * 100)


def test_one_slot_needs_hardly_more_checks_than_theory_allows() -> None:
    runs = []
    for seed in range(40):
        chance = random.Random(seed)
        bad = frozenset(one for one in names(50) if chance.random() < 0.1)
        gate = ended(Faults(bad=bad), names(50), 1)
        runs.append(sum(check.purpose is Purpose.SEARCH for check in gate.runs))
    entropy = -50 * (0.1 * math.log2(0.1) + 0.9 * math.log2(0.9))
    assert sum(runs) / len(runs) <= 1.15 * entropy
