"""`weft plan split`: proposals, the planner's parts, and a split story that lands as one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cli.shell import answer, assert_one_sentence, make_project, weft
from cli.test_plan_new import answering, planner
from repositories import commit_all, content, git
from weft import plan
from weft.plan.plan_records import ItemKind

FILES = [f"{part}/{part}{number}.txt" for part in ("api", "ui") for number in range(3)]
PLAN = """\
# Plan

## Phase 1: All

- [ ] Task 1: Rename the thing everywhere
  <!-- files: api/, ui/; check: ! grep -rq old api ui -->
- [ ] Task 2: Say so
  <!-- files: README.md -->
"""
PARTS = """\
## Phase 1: Parts
<!-- execution: parallel -->

- [ ] Task 1: Rename in the API
  - script: replace api/api0.txt old => new
  - script: replace api/api1.txt old => new
  - script: replace api/api2.txt old => new
  <!-- files: api/ -->
- [ ] Task 2: Rename in the interface
  - script: replace ui/ui0.txt old => new
  - script: replace ui/ui1.txt old => new
  - script: replace ui/ui2.txt old => new
  <!-- files: ui/ -->
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository in which the files of `api` and of `ui` rarely change together."""
    project = make_project(tmp_path / "project")
    (project / "plan.md").write_text(PLAN)
    (project / "README.md").write_text("read\n")
    for word in ("a", "b", "c", "old"):
        for part in ("api", "ui"):
            (project / part).mkdir(exist_ok=True)
            for path in FILES:
                if path.startswith(part):
                    (project / path).write_text(f"{word}\n")
            commit_all(project, f"{part} {word}")
    return project


def add_planner(project: Path, *script: str) -> None:
    (project / ".weft" / "agents" / "plan.md").write_text(planner(*script))
    commit_all(project, "planner")


def split(project: Path, *arguments: str) -> list[dict[str, Any]]:
    done = weft(project, "plan", "split", "plan.md", *arguments, "--json")
    assert done.returncode in (0, 1), done
    proposals: list[dict[str, Any]] = json.loads(done.stdout)
    return proposals


def test_a_split_is_proposed_with_its_gain_and_written_only_when_asked(project: Path) -> None:
    first, second = split(project)
    assert (first["task"], first["pays"], first["by"]) == ("1.1", True, "files")
    assert first["after"] <= 0.7 * first["before"]
    assert [part["files"] for part in first["subtasks"]] == [FILES[:3], FILES[3:]]
    assert (second["pays"], second["subtasks"]) == (False, [])
    assert second["reason"] == "it has 1 file, and a task with fewer than 3 is not split"
    assert (project / "plan.md").read_text() == PLAN
    shown = weft(project, "plan", "show", "plan.md").stdout
    assert "Split:          1.1 into 2 parts: " in shown
    assert "not 1.2: it has 1 file, and a task with fewer than 3 is not split" in shown
    (project / "weft.toml").write_text('[plan]\nsplit = "off"\n')
    assert "Split:" not in weft(project, "plan", "show", "plan.md").stdout
    [written] = split(project, "1.1", "--write")
    assert written["written"]
    tasks = plan.read("plan.md", (project / "plan.md").read_bytes()).plan.tasks
    assert [task.id for task in tasks] == ["1.1.a", "1.1.b", "1.1", "1.2"]
    assert_one_sentence(weft(project, "plan", "split", "plan.md", "1.1"), 2, "split already")
    assert_one_sentence(weft(project, "plan", "split", "plan.md", "1.1.a"), 2, "a part of 1.1")
    assert_one_sentence(weft(project, "plan", "split", "plan.md", "1.9"), 2, "no task '1.9'")


def test_the_parts_of_a_planner_run_at_once_and_land_as_one(project: Path) -> None:
    add_planner(project, *answering(PARTS))
    [proposal] = split(project, "1.1", "--write")
    assert proposal["by"] == "plan"
    done = weft(project, "run", "plan.md", "--agent", "try")
    assert done.returncode == 0, done
    [branch] = git(project, "branch", "--list", "--format=%(refname:short)", "weft/*").split()
    assert {content(project, branch, path) for path in FILES} == {"new\n"}
    report = answer(project, "report", "--json")
    assert report["rejections"] == [], "the check of the story fails on either part alone"
    tasks = plan.read("plan.md", (project / "plan.md").read_bytes()).plan.tasks
    marks = {task.id: task for task in tasks}
    assert all(marks[name].settled for name in ("1.1.a", "1.1.b", "1.1"))
    assert marks["1.1"].kind is ItemKind.STORY


@pytest.mark.parametrize(
    ("answered", "words"),
    [
        ("No.", "no plan again"),
        (PARTS.replace("files: api/", "files: README.md"), "the same plan again"),
        (
            PARTS.replace("Task 1", "Task 1").replace("files: ui/", "files: ui/ui0.txt"),
            "the same plan again",
        ),
    ],
    ids=["no parts", "files of another task", "files left out"],
)
def test_a_planner_without_a_good_split_leaves_the_groups_of_files(
    project: Path, answered: str, words: str
) -> None:
    add_planner(project, *answering(answered))
    done = weft(project, "plan", "split", "plan.md", "1.1", "--json")
    assert done.returncode == 0, done
    assert words in done.stderr
    assert "groups of files are taken instead" in done.stderr
    assert "Planning took 2 rounds" in done.stderr
    assert json.loads(done.stdout)[0]["by"] == "files"


def test_a_story_of_a_prd_is_split_too(project: Path) -> None:
    story = {"id": "S", "title": "Rename", "files": FILES}
    (project / "prd.json").write_text(json.dumps({"stories": [story]}))
    done = weft(project, "plan", "split", "prd.json", "S", "--write")
    assert done.returncode == 0, done
    [written] = json.loads((project / "prd.json").read_text())["stories"]
    assert [part["id"] for part in written["subtasks"]] == ["S.a", "S.b"]
    checked = answer(project, "plan", "check", "prd.json", "--json")
    assert not [problem for problem in checked["problems"] if problem["severity"] == "error"]
