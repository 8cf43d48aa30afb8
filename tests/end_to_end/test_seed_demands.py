"""Sentences of the earlier designs from end to end: subtasks, splits and predicted files."""

from __future__ import annotations

import json
from typing import Any

import pytest

from end_to_end.run_project import RunProject, overlap
from wait_until import wait_until

pytestmark = pytest.mark.timeout(600)

SEPARABLE = ["src/review.ts", "src/judge.ts", "src/utils.ts"]
REWRITE = {
    "id": "LOOP-3",
    "title": "Rewrite reviewer as evaluator",
    "description": "Remove the test-writing code, add the evaluation prompt, wire the output.",
    "acceptance_criteria": ["The reviewer writes no test"],
    "files": SEPARABLE,
}


def write_prd(project: RunProject, *stories: dict[str, Any]) -> None:
    prd = {"title": "Loops", "description": "Loops must be quick.", "stories": stories}
    project.write(**{"prd.json": json.dumps(prd, indent=1)})


def write_files(project: RunProject, *paths: str) -> None:
    project.write(**dict.fromkeys(paths, "old\n"))
    project.commit()


def keep_prompts(project: RunProject) -> None:
    """Let the agent of the project keep its prompt, and change the first file of its task."""
    place = project.root.parent / "prompts"
    place.mkdir()
    project.shell(
        "implement",
        f'cat > "{place}/$WEFT_TASK"; for file in $WEFT_FILES; do echo new >> "$file"; break; done',
    )
    project.commit()


def read_prompt(project: RunProject, task: str) -> str:
    return (project.root.parent / "prompts" / task).read_text()


def assert_tells_of_story(prompt: str) -> None:
    for words in (
        "Rewrite reviewer as evaluator",
        "Remove the test-writing code",
        "The reviewer writes no test",
        "Loops must be quick.",
    ):
        assert words in prompt, words


def test_003_a_subtask_sees_title_description_and_criteria_of_its_parent_story(
    project: RunProject,
) -> None:
    write_files(project, *SEPARABLE)
    keep_prompts(project)
    parts = [
        {"id": f"LOOP-3.{letter}", "description": f"Part {letter}", "files": [path]}
        for letter, path in zip("abc", SEPARABLE, strict=True)
    ]
    write_prd(project, {**REWRITE, "subtasks": parts})
    project.run("prd.json")
    for letter in "abc":
        prompt = read_prompt(project, f"LOOP-3.{letter}")
        assert f"Part {letter}" in prompt
        assert_tells_of_story(prompt)


def test_003_a_story_with_three_files_decomposes_into_subtasks_that_run_in_parallel(
    project: RunProject,
) -> None:
    """Asked for once, without a history or records; the dry run shows it and writes nothing."""
    project.settings(rest='[plan]\nsplit = "auto"\n')
    write_files(project, *SEPARABLE)
    keep_prompts(project)
    write_prd(project, REWRITE)
    before = (project.root / "prd.json").read_text()
    shown = project.weft("run", "prd.json", "--dry-run")
    assert "LOOP-3 into 3 parts" in shown.stdout, shown
    assert (project.root / "prd.json").read_text() == before
    project.run("prd.json")
    names = ["LOOP-3.a", "LOOP-3.b", "LOOP-3.c"]
    project.assert_landed_once(*names)
    for name in names:
        assert_tells_of_story(read_prompt(project, name))
    [story] = json.loads((project.root / "prd.json").read_text())["stories"]
    assert [part["passes"] for part in story["subtasks"]] == [True] * 3


def test_003_a_run_splits_when_the_option_asks_for_it_and_not_otherwise(
    project: RunProject,
) -> None:
    write_files(project, *SEPARABLE)
    write_prd(project, REWRITE)
    assert project.run("prd.json", "--dry-run")["splits"] == []
    [split] = project.run("prd.json", "--dry-run", "--split")["splits"]
    assert [part["files"] for part in split["subtasks"]] == [[path] for path in SEPARABLE]


def test_003_single_file_stories_are_not_decomposed(project: RunProject) -> None:
    write_files(project, *SEPARABLE)
    write_prd(project, {**REWRITE, "files": SEPARABLE[:1]})
    assert project.run("prd.json", "--dry-run", "--split")["splits"] == []


def test_003_four_independent_stories_execute_simultaneously_by_default(
    project: RunProject,
) -> None:
    go = project.root.parent / "go"
    names = ["A", "B", "C", "D"]
    write_prd(
        project,
        *(
            {
                "id": name,
                "title": f"Story {name}",
                "description": f"script: wait {go}\nscript: write src/{name} x",
                "files": [f"src/{name}"],
            }
            for name in names
        ),
    )
    process = project.start("run", "prd.json")
    wait_until(lambda: list(project.states().values()) == ["running"] * 4)
    go.touch()
    out, err = process.communicate()
    assert process.returncode == 0, (out, err)
    assert overlap(project.spans(*names))


def test_003_files_without_a_history_are_predicted_from_the_text(project: RunProject) -> None:
    write_files(project, *SEPARABLE)
    write_prd(
        project,
        {"id": "A", "title": "Let src/review.ts evaluate"},
        {"id": "B", "title": "Let judge.ts read the evaluation"},
        {"id": "C", "title": "Tidy up"},
    )
    done = project.weft("plan", "predict", "prd.json", "--json")
    claims = {
        task["id"]: [file["path"] for file in task["files"] if file.get("claimed")]
        for task in json.loads(done.stdout)["tasks"]
    }
    assert claims == {"A": ["src/review.ts"], "B": ["src/judge.ts"], "C": []}
    checked = project.run("prd.json", "--dry-run")
    lone = [each["message"] for each in checked["problems"] if each["code"] == "no-files"]
    assert len(lone) == 1
    assert lone[0].startswith("C ")


def test_003_the_planner_reads_the_stories_and_predicts_which_files_will_be_modified(
    project: RunProject,
) -> None:
    """Where there is a planner; without it the text decides."""
    write_files(project, *SEPARABLE)
    stories = ({"id": "A", "title": "Evaluate"}, {"id": "B", "title": "Let judge.ts read it"})
    write_prd(project, *stories)
    asked = ("plan", "predict", "prd.json", "--agent", "--write", "--json")
    assert project.weft(*asked).returncode == 0
    declared = json.loads((project.root / "prd.json").read_text())["stories"]
    assert [story.get("files") for story in declared] == [None, ["src/judge.ts"]]
    write_prd(project, *stories)
    answer = (
        "## Phase 1: Files\\n<!-- execution: parallel -->\\n"
        "- [ ] Evaluate\\n  <!-- id: A; files: src/review.ts; new: src/prompt.ts -->\\n"
        "- [ ] Read it\\n  <!-- id: B; files: src/judge.ts -->\\n"
    )
    project.agent("plan", "stage: plan\n", f"{{{{ task.text }}}}\n- script: answer {answer}")
    project.commit()
    done = project.weft(*asked)
    assert done.returncode == 0, done
    assert json.loads(done.stdout)["note"] == "plan named the files of 2 tasks."
    declared = json.loads((project.root / "prd.json").read_text())["stories"]
    files = [story["files"] for story in declared]
    assert files == [["src/review.ts", "src/prompt.ts"], ["src/judge.ts"]]
