"""Compiling: barriers, overlaps and critical paths, also against a slower way to get there."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from cases import each_case
from plan.planning import PATTERNS, compiled, edges, order, random_plan
from weft import graph, plan
from weft.paths import conflicts
from weft.plan.overlaps import Sweep
from weft.plan.plan_json import explain_edge, find_critical_path
from weft.plan.plan_records import Compiled, EdgeReason


def two_phases(count: int) -> Compiled:
    """Two parallel phases, every task with a file of its own."""
    lines = []
    for phase in (1, 2):
        lines.append(f"## Phase {phase}: x\n<!-- execution: parallel -->\n")
        lines.extend(f"- [ ] a\n  <!-- files: {phase}/{at} -->\n" for at in range(count))
    return compiled("".join(lines))


def test_small_phases_are_joined_by_edges() -> None:
    result = two_phases(5)
    assert len(edges(result, EdgeReason.PHASE)) == 25
    assert result.barriers == ()


def test_large_phases_are_joined_by_a_barrier_which_means_the_same() -> None:
    result = two_phases(100)
    (barrier,) = result.barriers
    assert (len(barrier.before), len(barrier.after)) == (100, 100)
    assert result.edges == ()
    assert len(result.successors) == 201
    assert result.width == 100
    assert ("1.1", "2.100") in order(result)


def test_a_barrier_is_written_out_where_tools_look_for_edges() -> None:
    result = two_phases(100)
    reading = plan.ParsedPlan(plan=result.plan, problems=())
    assert len(plan.as_json(reading, result)["edges"]) == 10_000


def test_phases_are_joined_only_at_their_ends() -> None:
    result = compiled(
        """
        ## Phase 1: a
        - [ ] a
        - [ ] b
        ## Phase 2: b
        - [ ] c
        - [ ] d
        """
    )
    assert edges(result, EdgeReason.PHASE) == {("1.2", "2.1")}


def test_the_critical_path_is_the_longest_way_through_what_is_left() -> None:
    result = compiled(
        """
        ## Phase 1: a
        <!-- execution: parallel -->
        - [x] a
          <!-- files: a -->
        - [ ] b
          <!-- files: b; depends: task1 -->
        - [ ] c
          <!-- files: c; depends: task2 -->
        - [ ] d
          <!-- files: d; depends: task1 -->
        """
    )
    assert find_critical_path(result) == ["1.2", "1.3"]
    assert find_critical_path(result, {"1.4": 1000}) == ["1.4"]


def test_every_edge_can_be_explained() -> None:
    result = compiled(
        """
        ## Phase 1: a
        - [ ] a
        - [ ] b
        ## Phase 2: b
        <!-- execution: parallel -->
        - [ ] c
          <!-- files: x -->
        - [ ] d
          <!-- files: x -->
        - [ ] e
          <!-- depends: task1; files: none -->
        - [ ] Manual verification
        """
    )
    reasons = {explain_edge(edge) for edge in result.edges}
    assert "their phase runs one task after the other (line 3 and 4)" in reasons
    assert "2.3 depends on 2.1 (line 12)" in reasons
    assert "both may change x (line 7 and 9)" in reasons
    assert "a person looks at 2.4 when 2.3 is done (line 11 and 13)" in reasons
    assert "the phase of 2.1 comes after that of 1.2 (line 2 and 5)" in reasons


claims = st.lists(
    st.lists(st.sampled_from(PATTERNS), min_size=1, max_size=3, unique=True), max_size=8
)


def linked(claimed: list[list[str]]) -> set[tuple[int, int]]:
    sweep = Sweep(claimed)
    return {
        (earlier, number)
        for number, patterns in enumerate(claimed)
        for earlier in sweep.claim(number, patterns)
    }


@given(claims)
def test_every_link_joins_two_that_really_overlap(claimed: list[list[str]]) -> None:
    for a, b in linked(claimed):
        assert any(conflicts(x, y) for x in claimed[a] for y in claimed[b])


@given(claims)
def test_every_two_that_overlap_are_joined_by_a_chain(claimed: list[list[str]]) -> None:
    successors: list[list[int]] = [[] for _ in claimed]
    for a, b in linked(claimed):
        successors[a].append(b)
    reach = [{node} for node in range(len(claimed))]
    for node in reversed(range(len(claimed))):
        for after in successors[node]:
            reach[node] |= reach[after]
    for a, b in combinations(range(len(claimed)), 2):
        if any(conflicts(x, y) for x in claimed[a] for y in claimed[b]):
            assert b in reach[a]


def test_one_file_makes_a_chain_and_not_all_pairs() -> None:
    assert linked([["a"]] * 100) == {(at, at + 1) for at in range(99)}
    assert linked([["src/**"]] * 100) == {(at, at + 1) for at in range(99)}
    assert linked([["**"]] * 100) == {(at, at + 1) for at in range(99)}


@each_case("seed", range(150))
def test_random_plans_keep_every_promise(seed: int) -> None:
    reading = plan.read("plan.md", random_plan(seed).encode())
    result = plan.compile(reading.plan)
    cyclic = any(problem.code == "cycle" for problem in result.problems)
    assert len(graph.order(result.successors)) == len(result.successors)
    if cyclic:
        return
    known = order(result)
    promised_by_phases(result, known)
    overlaps = edges(result, EdgeReason.OVERLAP)
    # An overlap never joins two that are in order, and never turns against the order.
    assert not overlaps & (known | {(b, a) for a, b in known})
    together = known | overlaps
    tasks = result.plan.tasks
    for a, b in combinations(tasks, 2):
        if any(conflicts(x, y) for x in a.claims for y in b.claims):
            assert connected(a.id, b.id, together)
    assert plan.compile(reading.plan) == result


def promised_by_phases(result: Compiled, known: set[tuple[str, str]]) -> None:
    """Assert the promises of rulings 1 and 3, pair by pair."""
    members: dict[str, list[str]] = {phase.label: [] for phase in result.plan.phases}
    for task in result.plan.tasks:
        members[task.phase].append(task.id)
    labels = [phase.label for phase in result.plan.phases]
    for at, phase in enumerate(result.plan.phases):
        if not phase.parallel:
            own = members[phase.label]
            assert {(a, b) for a, b in combinations(own, 2)} <= known
        waits = labels[:at] if phase.depends is None else [each.to for each in phase.depends]
        for label in waits:
            assert {(a, b) for a in members[label] for b in members[phase.label]} <= known


def connected(a: str, b: str, pairs: set[tuple[str, str]]) -> bool:
    """Return whether a chain of orders and overlaps joins two tasks, in any direction."""
    near: dict[str, set[str]] = {}
    for x, y in pairs:
        near.setdefault(x, set()).add(y)
        near.setdefault(y, set()).add(x)
    seen = {a}
    waiting = [a]
    while waiting:
        for each in near.get(waiting.pop(), ()):
            if each not in seen:
                seen.add(each)
                waiting.append(each)
    return b in seen
