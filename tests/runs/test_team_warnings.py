"""Warnings of teams whose candidates no check tells apart."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.runs import plan_check
from weft.runs.plan_check import PlanSource

GATE = '[gate]\nrun = "make test"\n'


@pytest.mark.parametrize(
    ("settings", "annotation", "codes"),
    [
        ("", "team: best-of 2", ["unchecked-team"]),
        ("", "team: best-of 2; check: make test", []),
        (GATE, "team: best-of 2", []),
        ("", "priority: high", []),
    ],
)
def test_a_team_without_any_check_is_warned_about(
    tmp_path: Path, settings: str, annotation: str, codes: list[str]
) -> None:
    (tmp_path / "weft.toml").write_text(settings)
    text = f"- [ ] a\n  <!-- files: a; {annotation} -->\n"
    source = PlanSource(name="plan.md", data=text.encode())
    with plan_check.setting(tmp_path, {}) as around:
        checked = plan_check.check(source, around)
    assert [problem.code for problem in checked.problems] == codes
    assert not checked.failed
