"""A check of a plan names the agents that have no file, as a run would refuse them."""

from __future__ import annotations

from pathlib import Path

import pytest

from repositories import make_repository
from weft.runs import plan_check

AGENT = "---\ndescription: x\nruns: scripted\n---\n{{ task }}\n"


def check(root: Path, keys: str, mark: str = " ") -> list[tuple[str, str, str]]:
    (root / "plan.md").write_text(f"## P\n- [{mark}] Do it\n  <!-- files: a; {keys} -->\n")
    with plan_check.setting(root, {}) as around:
        checked = plan_check.check(plan_check.load(root, "plan.md"), around)
    return [
        (problem.severity, problem.message, problem.suggestion)
        for problem in checked.problems
        if problem.code == "unknown-agent"
    ]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = make_repository(tmp_path / "project")
    for name in ("implement", "claude", "review"):
        file = made / ".weft" / "agents" / f"{name}.md"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(AGENT)
    return made


@pytest.mark.parametrize(
    ("keys", "name", "suggestion"),
    [
        ("agent: cluade", "cluade", "Did you mean 'claude'?"),
        ("team: 2 of claud", "claud", "Did you mean 'claude'?"),
        ("team: best-of 2; judge: reviw", "reviw", "Did you mean 'review'?"),
        ("stages: implement, judge", "judge", "There are: claude, implement, review."),
        ("agent: xyz", "xyz", "There are: claude, implement, review."),
    ],
)
def test_an_agent_without_a_file_is_an_error_with_a_suggestion(
    root: Path, keys: str, name: str, suggestion: str
) -> None:
    [(severity, message, advice)] = check(root, keys)
    assert severity == "error"
    assert repr(name) in message
    assert advice == suggestion


@pytest.mark.parametrize(
    "keys", ["agent: claude", "agent: human", "team: 2 of claude", "stages: implement, review"]
)
def test_agents_with_a_file_and_people_are_no_problem(root: Path, keys: str) -> None:
    assert check(root, keys) == []


def test_a_task_that_is_done_names_any_agent(root: Path) -> None:
    assert check(root, "agent: gone", mark="x") == []


def test_a_project_without_agent_files_checks_plans(tmp_path: Path) -> None:
    assert check(make_repository(tmp_path / "new"), "agent: claude") == []
