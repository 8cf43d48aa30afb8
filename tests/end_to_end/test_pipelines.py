"""Stages: tests first, then the work, then those who look at it; what they refuse comes back.

One run has them all, side by side; what became of each is looked at then.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from end_to_end.run_observer import Watcher
from end_to_end.run_project import RunProject

pytestmark = pytest.mark.timeout(600)

STAGES = ["test", "implement", "review", "judge"]
YES = json.dumps({"does_what_was_asked": {"answer": "yes", "why": ""}, "must_be_fixed": []})
NO = json.dumps(
    {
        "does_what_was_asked": {"answer": "no", "why": "hardly"},
        "must_be_fixed": [{"file": "src/again", "line": 1, "what": "say more"}],
    }
)
ACCEPT = json.dumps({"verdict": "accept", "why": "fine", "must_be_fixed": []})
REJECT = json.dumps({"verdict": "reject", "why": "", "must_be_fixed": ["it is too short"]})

WORK = {
    "one": [],
    "two": [],
    "cheat": ["attempt 2: write tests/cheat made easy"],
    "again": [f"attempt 3: answer {NO}", f"attempt 6: answer {REJECT}"],
    "never": [f"stage review: answer {NO}"],
    "vague": ["stage judge: answer It looks rather good to me!"],
    "red": ["attempt 2: write src/red BROKEN"],
}


def plan(go: Path) -> str:
    """The plan of all tasks; the first waits for the file `go`."""
    lines = [
        "# Pipelines",
        "Work is *text*.",
        "## Phase 1: All",
        "<!-- execution: parallel -->",
        "",
    ]
    for name, odd in WORK.items():
        lines += [f"- [ ] The one called {name}"]
        lines += [f"  <!-- id: {name}; files: src/{name}, tests/{name} -->"]
        script = [
            *([f"stage test: wait {go}"] if name == "one" else []),
            f"stage test: write tests/{name} a test",
            f"stage implement: append src/{name} work",
            f"stage review: answer {YES}",
            f"stage judge: answer {ACCEPT}",
            *odd,
        ]
        lines += [f"  - script: {one}" for one in script]
    return "\n".join(lines) + "\n"


def stages(project: RunProject, name: str) -> list[tuple[str, str]]:
    rows = project.rows(
        "SELECT a.stage, a.outcome FROM attempts a JOIN tasks t ON t.id = a.task"
        " WHERE t.name = ? ORDER BY a.number",
        name,
    )
    return [(str(row["stage"]), str(row["outcome"])) for row in rows]


def prompt(project: RunProject, name: str, attempt: int) -> str:
    [row] = project.rows("SELECT id FROM tasks WHERE name = ?", name)
    places = project.root / ".git" / "weft" / "attempts"
    [path] = places.glob(f"*/{row['id']}.{attempt}/stdin")
    return path.read_text()


def every_stage_is_an_attempt_of_its_own(done: RunProject) -> None:
    for name in ("one", "two"):
        assert done.states()[name] == "done"
        assert stages(done, name) == [(one, "success") for one in STAGES]
        assert done.landed(f"tests/{name}") == "a test\n"
        assert done.landed(f"src/{name}") == "work\n"
    assert done.weft("verify", done.run_id()).returncode == 0


def looking_is_one_at_a_time_and_nothing_is_left(project: RunProject, watcher: Watcher) -> None:
    watcher.assert_saw_nothing()
    for stage in ("review", "judge"):
        assert watcher.most[f"stage:{project.run_id()}/{stage}"] <= 1
    project.assert_nothing_left()


def the_prose_of_the_plan_and_its_specification_are_in_the_prompt(done: RunProject) -> None:
    for attempt in (1, 2):
        text = prompt(done, "two", attempt)
        assert "- Plan: Pipelines\n- Phase: All" in text
        assert "## About the plan\n\n```\nWork is *text*.\n```" in text
        assert "Each of them is tested." in text


def an_implementer_that_edits_the_tests_is_refused(done: RunProject) -> None:
    assert stages(done, "cheat")[1:3] == [("implement", "scope"), ("implement", "success")]
    assert done.landed("tests/cheat") == "a test\n"


def a_rejection_goes_back_with_its_reasons_and_is_made_again(done: RunProject) -> None:
    assert stages(done, "again") == [
        ("test", "success"),
        ("implement", "success"),
        ("review", "review"),
        ("implement", "success"),
        ("review", "success"),
        ("judge", "judge"),
        ("implement", "success"),
        ("review", "success"),
        ("judge", "success"),
    ]
    assert "say more" in prompt(done, "again", 4)
    assert "it is too short" in prompt(done, "again", 7)
    assert done.landed("src/again") == "work\n" * 3


def three_rejections_block(done: RunProject) -> None:
    assert done.states()["never"] == "blocked"
    assert stages(done, "never").count(("review", "review")) == 3
    assert "say more" in done.reason("never")


def an_answer_without_a_verdict_lets_nothing_land(done: RunProject) -> None:
    assert done.states()["vague"] == "blocked"
    judged = [one for one in stages(done, "vague") if one[0] == "judge"]
    assert judged == [("judge", "crash")] * 3
    assert "without a verdict" in done.reason("vague")
    assert "src/vague" not in done.tree_listing()


def a_red_check_comes_back_before_anybody_looks_at_it(done: RunProject) -> None:
    names = [stage for stage, _ in stages(done, "red")]
    assert names == ["test", "implement", "implement", "review", "judge"]
    assert "BROKEN" not in done.landed("src/red")


def test_stages_of_every_outcome_in_one_run(project: RunProject) -> None:
    for name in STAGES:
        project.agent(name)
    project.commit()
    go = project.root.parent / "go"
    project.plan.write_text(plan(go))
    project.write(**{"spec.md": "# Specification\nEach of them is tested.\n"})
    with project.untouched(), Watcher(project, go=go) as watcher:
        project.run("plan.md", "--stages", ",".join(STAGES), "--slots", "6", code=1)
    looking_is_one_at_a_time_and_nothing_is_left(project, watcher)
    every_stage_is_an_attempt_of_its_own(project)
    the_prose_of_the_plan_and_its_specification_are_in_the_prompt(project)
    an_implementer_that_edits_the_tests_is_refused(project)
    a_rejection_goes_back_with_its_reasons_and_is_made_again(project)
    three_rejections_block(project)
    an_answer_without_a_verdict_lets_nothing_land(project)
    a_red_check_comes_back_before_anybody_looks_at_it(project)


ACCEPTED = """\
I looked at {everything}.

```json
{
  "does_what_was_asked": {"answer": "yes", "why": ""},
  "safe": {"answer": "yes", "why": ""},
  "must_be_fixed": []
}
```
"""


PLAN = """\
## Phase 1: All

- [ ] Task 1: Some work
  <!-- files: src/1 -->
  - script: write src/1 x
"""


def test_a_verdict_of_several_lines_by_a_command_is_read(project: RunProject) -> None:
    project.settings(check=None)
    project.shell("review", f"cat <<'END'\n{ACCEPTED}END\n")
    project.write(**{"plan.md": PLAN})
    done = project.weft("run", "plan.md", "--stages", "implement,review")
    assert done.returncode == 0, (done.stdout, done.stderr)
    project.assert_landed_once("1.1")


def test_acceptance_criteria_reach_every_prompt_of_a_story(project: RunProject) -> None:
    project.settings(check=None)
    project.shell("review", f"cat <<'END'\n{ACCEPTED}END\n")
    criteria = {"acceptance_criteria": ["the page is fast"]}
    whole = {
        "id": "A",
        "title": "A page",
        "files": ["src/a"],
        "description": "script: write src/a x",
    }
    part = {
        "id": "x",
        "title": "A part",
        "files": ["src/b"],
        "description": "script: write src/b x",
    }
    story = {"id": "B", "title": "A site", "subtasks": [part]}
    stories = [{**whole, **criteria}, {**story, **criteria}]
    project.write(**{"prd.json": json.dumps({"title": "Pages", "stories": stories})})
    project.run("prd.json", "--stages", "implement,review")
    heading = "## Acceptance criteria\n\n"
    for attempt in (1, 2):
        assert f"{heading}- the page is fast\n" in prompt(project, "A", attempt)
    assert f"{heading}- B as a whole: the page is fast\n" in prompt(project, "B.x", 1)
    assert f"{heading}- the page is fast\n" in prompt(project, "B", 1)
