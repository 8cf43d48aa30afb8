"""Verdicts of reviewers and judges, in any text around them."""

from __future__ import annotations

import json
from importlib import resources

from hypothesis import given
from hypothesis import strategies as st

from cases import each_case
from weft.agents.review_answer import ReviewVerdict, read, remove_prompt

YES = {"answer": "yes", "why": ""}
REVIEW = {"does_what_was_asked": YES, "safe": YES, "must_be_fixed": []}


@each_case(
    ("answer", "accepted", "reasons"),
    [
        ({"verdict": "accept", "why": "fine", "must_be_fixed": []}, True, ()),
        ({"verdict": "reject", "why": "no tests", "must_be_fixed": []}, False, ("no tests",)),
        (
            {"verdict": "reject", "must_be_fixed": ["mend a", {"file": "b.py", "what": "mend b"}]},
            False,
            ("mend a", "b.py: mend b"),
        ),
        (REVIEW, True, ()),
        (REVIEW | {"safe": {"answer": "unsure", "why": "perhaps"}}, True, ()),
        (REVIEW | {"safe": {"answer": "no", "why": "leaks"}}, False, ("safe: leaks",)),
        (
            REVIEW | {"must_be_fixed": [{"file": "a.py", "line": 3, "what": "typo"}]},
            False,
            ("a.py:3: typo",),
        ),
    ],
)
def test_an_answer_is_read_wherever_it_stands(
    answer: dict[str, object], accepted: bool, reasons: tuple[str, ...]
) -> None:
    wanted = ReviewVerdict(accepted=accepted, reasons=reasons)
    text = json.dumps(answer)
    assert read(text) == wanted
    assert read(f"I looked {{closely}}.\n```json\n{json.dumps(answer, indent=2)}\n```\n") == wanted
    assert read(f'First I thought {{"verdict": "reject"}}, but:\n{text}\nThat is all.') == wanted


@each_case(
    "text",
    ["", "looks good to me", "{}", '{"verdict": "maybe"}', '{"verdict": true}', "{" * 5000, "[1]"],
)
def test_what_is_no_clear_verdict_lets_nothing_land(text: str) -> None:
    assert read(text) is None


def test_a_prompt_that_is_printed_before_the_answer_is_no_answer() -> None:
    agents = resources.files("weft.maintenance") / "agents"
    for name in ("review", "judge"):
        template = (agents / f"{name}.md").read_text()
        printed = f"> reading the prompt\n{template}\nI looked at it.\n"
        assert read(remove_prompt(printed, template)) is None
        rejected = printed + '```json\n{\n  "verdict": "reject"\n}\n```\n'
        assert read(remove_prompt(rejected, template)) == ReviewVerdict(accepted=False)
        alone = '{"verdict": "accept"}'
        assert read(remove_prompt(alone, template)) == ReviewVerdict(accepted=True)


@given(st.text() | st.recursive(st.text() | st.none() | st.integers(), st.lists).map(json.dumps))
def test_no_answer_is_fatal(text: str) -> None:
    read(text)
