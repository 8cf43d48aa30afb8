"""The text of `team:`."""

from __future__ import annotations

import re

import pytest

from cases import each_case
from weft.teams.team_text import Strategy, Team, describe_team, name_agents, parse_team

TEXTS = {
    "hedge": Team(strategy=Strategy.HEDGE, size=2),
    "best-of 3": Team(strategy=Strategy.BEST_OF, size=3),
    "3 of claude": Team(strategy=Strategy.BEST_OF, size=3, agents=("claude",) * 3),
    "claude, codex": Team(strategy=Strategy.BEST_OF, size=2, agents=("claude", "codex")),
    "claude, codex; judge: judge": Team(
        strategy=Strategy.BEST_OF, size=2, agents=("claude", "codex"), judge="judge"
    ),
}


@each_case("text", TEXTS)
def test_a_team_is_read_and_written(text: str) -> None:
    assert parse_team(text) == TEXTS[text]
    assert describe_team(TEXTS[text]) == text


@each_case(
    ("text", "expected"),
    [
        ("", "`hedge`"),
        ("claude", "2 to 16 entrants"),
        ("best-of 1", "2 to 16 entrants"),
        ("best-of 17", "2 to 16 entrants"),
        ("999 of claude", "2 to 16 entrants"),
        ("panel(claude, codex)", "no panel of reviewers yet"),
        ("hedge; judge: judge", "first green candidate"),
        ("best-of 2; judge", "at most `; judge: NAME`"),
        ("best-of 2; judge: a; judge: b", "at most `; judge: NAME`"),
        ("../../etc, b", "`hedge`"),
        ("a, " * 400, "`hedge`"),
    ],
)
def test_another_text_is_refused_with_the_forms(text: str, expected: str) -> None:
    with pytest.raises(ValueError, match=re.escape(expected)):
        parse_team(text)


def test_different_agents_are_preferred() -> None:
    team = parse_team("best-of 3")
    assert name_agents(team, "b", ("a", "b", "c")) == ("b", "a", "c")
    assert name_agents(team, "b", ("a",)) == ("b", "a", "b")
    assert name_agents(parse_team("2 of c"), "b", ("a",)) == ("c", "c")
