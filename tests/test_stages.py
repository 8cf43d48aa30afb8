"""Which lists of stages a task can go through, and that it comes to their end."""

from __future__ import annotations

from itertools import chain, combinations

from hypothesis import given
from hypothesis import strategies as st

from cases import each_case
from weft import plan
from weft.model import Stage
from weft.stages import STAGES, after, find_fault

LEGAL = [
    chosen
    for chosen in chain.from_iterable(combinations(STAGES, many) for many in range(1, 5))
    if {"test", "implement"} & set(chosen)
]


@each_case("names", LEGAL)
def test_stages_in_their_order_are_legal_if_something_makes_a_change(names: list[str]) -> None:
    assert find_fault(names) is None


@each_case(
    ("names", "place", "words"),
    [
        ("foo", 0, "no stage 'foo'"),
        ("implement,Review", 1, "no stage 'Review'"),
        ("implement,implement", 1, "implement comes twice"),
        ("test,implement,test", 2, "test comes twice"),
        ("implement,test", 1, "test comes before implement"),
        ("review,implement", 1, "implement comes before review"),
        ("judge,test", 1, "test comes before judge"),
        ("review", 0, "nothing makes the change that review"),
        ("review,judge", 0, "nothing makes the change that review"),
    ],
)
def test_every_other_list_has_a_fault_with_its_place(names: str, place: int, words: str) -> None:
    fault = find_fault(names.split(","))
    assert fault is not None
    assert fault.place == place
    assert words in fault.why


@given(st.lists(st.sampled_from([*STAGES, "other"]), max_size=6))
def test_a_list_is_legal_or_has_a_fault_within_it(names: list[str]) -> None:
    fault = find_fault(names)
    assert (fault is None) == (tuple(names) in LEGAL)
    assert fault is None or 0 <= fault.place <= max(0, len(names) - 1)


@given(st.lists(st.sampled_from(STAGES), min_size=1, max_size=8))
def test_no_pipeline_goes_round_in_circles_even_with_a_stage_twice(names: list[str]) -> None:
    """Taking the first of two equal stages for the second one, it would for ever."""
    pipeline = [Stage(name=name, agent=name) for name in names]
    seen = [names[0]]
    while (following := after(pipeline, seen[-1])) is not None:
        seen.append(following.name)
        assert len(seen) <= len(STAGES)
    assert len(seen) == len(set(seen))


@each_case(
    ("said", "column", "words"),
    [
        ("implement, implement", 28, "implement comes twice"),
        ("review", 17, "nothing makes the change"),
        ("test, foo", 23, "no stage 'foo'"),
        ("judge → implement", 17, "implement comes before judge"),
        ("", 9, "it is empty"),
    ],
)
def test_a_plan_is_told_where_its_stages_are_wrong(said: str, column: int, words: str) -> None:
    text = f"## P\n- [ ] a\n  <!-- files: a -->\n  <!--  stages: {said} -->\n"
    [problem] = plan.read("plan.md", text.encode()).problems
    assert (problem.code, problem.severity, problem.line) == ("bad-stages", "error", 4)
    assert problem.column == column
    assert words in problem.message
    assert "test, implement, review and judge" in problem.suggestion


def test_a_misspelt_stage_is_guessed() -> None:
    text = "## P\n- [ ] a\n  <!-- files: a; stages: test, implment -->\n"
    [problem] = plan.read("plan.md", text.encode()).problems
    assert problem.suggestion == "Did you mean 'implement'?"
