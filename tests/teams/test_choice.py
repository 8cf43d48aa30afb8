"""The choice among candidates: a function of the results, never of the order they came in."""

from __future__ import annotations

from itertools import permutations

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from cases import each_case
from weft.teams.choice import (
    CandidateResult,
    EntrantResult,
    Preference,
    TeamResults,
    choose,
)
from weft.teams.comparison_answer import read_preference
from weft.teams.team_text import Strategy
from weft.teams.test_files import is_test_file

OUT = [result for result in CandidateResult if result not in (CandidateResult.OPEN, "green")]
FIRST, SECOND, EQUAL = Preference


def green(number: int, **fields: object) -> EntrantResult:
    entrant = EntrantResult(number=number, result=CandidateResult.GREEN, tree=f"t{number}")
    return replace(entrant, **fields)


def best_of(*entrants: EntrantResult, **fields: object) -> TeamResults:
    team = TeamResults(strategy=Strategy.BEST_OF, size=len(entrants), entrants=entrants)
    return replace(team, **fields)


def hedge(*entrants: EntrantResult) -> TeamResults:
    return replace(best_of(*entrants), strategy=Strategy.HEDGE, size=2)


def test_a_team_waits_for_all_its_entrants() -> None:
    waiting = EntrantResult(number=2)
    decision = choose(best_of(green(1), waiting))
    assert decision == type(decision)()


@each_case("result", OUT)
def test_the_only_green_candidate_wins(result: CandidateResult) -> None:
    decision = choose(best_of(EntrantResult(number=1, result=result), green(2, lines=900)))
    assert decision.winner == 2
    assert [step.name for step in decision.steps] == ["scope and merge", "gate check", "task check"]


def test_without_a_green_candidate_one_more_attempt_gets_the_failures() -> None:
    red = [EntrantResult(number=n, result=CandidateResult.GATE_RED) for n in (1, 2)]
    assert choose(best_of(*red)).tries_again
    last = EntrantResult(number=3, result=CandidateResult.TASK_RED, last=True)
    decision = choose(replace(best_of(*red, last), size=2))
    assert decision.gives_up
    assert not decision.tries_again


def test_new_tests_are_run_on_the_other_candidates_before_the_choice() -> None:
    team = best_of(green(1), green(2, has_tests=True, lines=9))
    assert choose(team).tests == ((1, 2),)
    assert choose(replace(team, tests={(1, 2): False})).winner == 2
    assert choose(replace(team, tests={(1, 2): True})).winner == 1


def test_no_tests_are_run_without_a_check_or_on_equal_candidates() -> None:
    assert choose(best_of(green(1), green(2, has_tests=True), checked=False)).winner == 1
    assert choose(best_of(green(1, tree="t"), green(2, tree="t", has_tests=True))).winner == 1


def test_equal_candidates_are_one_and_the_cheapest_stands_for_them() -> None:
    team = best_of(green(1, tree="t", micro_usd=2), green(2, tree="t", micro_usd=1), judged=True)
    decision = choose(team)
    assert (decision.winner, decision.comparisons) == (2, ())


def test_a_judge_compares_each_pair_in_both_orders() -> None:
    team = best_of(green(1, lines=1), green(2, lines=2), green(3, lines=3), judged=True)
    assert set(choose(team).comparisons) == set(permutations((1, 2, 3), 2))


@each_case(
    ("forwards", "backwards", "winner"),
    [
        (FIRST, SECOND, 1),
        (SECOND, FIRST, 2),
        (FIRST, FIRST, 2),
        (SECOND, SECOND, 2),
        (EQUAL, FIRST, 2),
    ],
)
def test_a_judge_that_prefers_by_position_is_a_tie(
    forwards: Preference, backwards: Preference, winner: int
) -> None:
    """In a tie the smaller diff wins, which is that of the second entrant."""
    team = best_of(green(1, lines=9), green(2, lines=1), judged=True)
    preferences = {(1, 2): forwards, (2, 1): backwards}
    assert choose(replace(team, preferences=preferences)).winner == winner


def test_the_smaller_diff_wins_then_the_lower_cost_then_the_place() -> None:
    assert choose(best_of(green(1, lines=2), green(2, lines=1, micro_usd=9))).winner == 2
    assert choose(best_of(green(1, micro_usd=2), green(2, micro_usd=1))).winner == 2
    assert choose(best_of(green(2), green(1))).winner == 1


def test_a_hedge_ends_with_its_first_green_candidate() -> None:
    red = EntrantResult(number=1, result=CandidateResult.GATE_RED)
    assert choose(hedge(EntrantResult(number=1))) == choose(hedge(EntrantResult(number=2)))
    assert choose(hedge(red)).starts
    assert choose(hedge(EntrantResult(number=1), green(2, arrival=4))).winner == 2
    assert choose(hedge(green(1, arrival=7), green(2, arrival=4))).winner == 2
    assert choose(hedge(red, replace(red, number=2))).tries_again


ENTRANTS = st.lists(
    st.builds(
        EntrantResult,
        number=st.just(0),
        result=st.sampled_from([CandidateResult.GREEN, *OUT]),
        tree=st.sampled_from("abc"),
        lines=st.integers(0, 3),
        micro_usd=st.integers(0, 3),
        has_tests=st.booleans(),
    ),
    min_size=2,
    max_size=5,
).map(lambda rows: [replace(row, number=n) for n, row in enumerate(rows, 1)])


@given(ENTRANTS, st.data())
def test_the_order_of_arrival_never_matters(
    entrants: list[EntrantResult], data: st.DataObject
) -> None:
    """Every answer that is asked for is given, in any order: one winner, or none is green."""
    passes = data.draw(st.dictionaries(st.tuples(*[st.integers(1, 5)] * 2), st.booleans()))
    prefers = data.draw(
        st.dictionaries(st.tuples(*[st.integers(1, 5)] * 2), st.sampled_from(Preference))
    )
    outcomes = set()
    for order in (entrants, entrants[::-1], data.draw(st.permutations(entrants))):
        team = best_of(*order, judged=True)
        while (decision := choose(team)).tests or decision.comparisons:
            tests = {pair: passes.get(pair, True) for pair in decision.tests}
            answers = {pair: prefers.get(pair, EQUAL) for pair in decision.comparisons}
            team = replace(
                team,
                tests={**team.tests, **tests},
                preferences={**team.preferences, **answers},
            )
        outcomes.add((decision.winner, decision.tries_again, str(decision.steps)))
    assert len(outcomes) == 1
    [(winner, tries_again, _)] = outcomes
    greens = {each.number for each in entrants if each.result is CandidateResult.GREEN}
    assert winner in greens if greens else tries_again


def test_a_comparison_is_read_from_an_object_and_nothing_else() -> None:
    assert read_preference({"better": 1}) is FIRST
    assert read_preference({"better": "2", "why": "shorter"}) is SECOND
    assert read_preference({"better": "Equal"}) is EQUAL
    for unclear in (None, {}, {"better": 3}, {"better": None}, "1", ["1"]):
        assert read_preference(unclear) is None


def test_test_files_are_known_by_their_names() -> None:
    tests = [
        "tests/a.py",
        "src/test_a.py",
        "a_test.go",
        "b.test.ts",
        "src/ATest.java",
        "x/spec/y.rb",
    ]
    assert all(map(is_test_file, tests))
    assert not any(map(is_test_file, ["src/a.py", "latest.py", "contest/a.py", "testing.md"]))
