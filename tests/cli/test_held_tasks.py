"""Work that a plan holds back, and plans of other formats, from the file to the marks."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.plan_project import Project, plan
from databases import sqlite_store

HELD = plan(
    "Good: one.txt: write one.txt 1",
    "Held: two.txt: write two.txt 2",
).replace("- [ ] Task 1.2: Held", "- [!] Task 1.2: Held [BLOCKED: no key yet]")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "project", sqlite_store(tmp_path / "weft.db"))


def test_a_held_task_waits_for_a_person_until_its_mark_changes(project: Project) -> None:
    path = project.write(HELD)
    assert "[!]" in path.read_text()
    done = project.weft("run", "plan.md")
    assert project.states() == {"1.1": "done", "1.2": "blocked"}, done.stdout + done.stderr
    assert done.returncode == 1
    assert project.states() == {"1.1": "done", "1.2": "blocked"}
    assert "no key yet" in done.stdout
    marked = path.read_text()
    assert "- [!] Task 1.2" in marked
    assert marked.count("[BLOCKED: no key yet]") == 1
    assert project.rows("SELECT * FROM attempts WHERE task = 2") == []

    path.write_text(marked.replace("- [!]", "- [ ]").replace(" [BLOCKED: no key yet]", ""))
    again = project.weft("run", "--resume")
    assert again.returncode == 0, again.stdout + again.stderr
    assert project.states() == {"1.1": "done", "1.2": "done"}
    assert "- [x] Task 1.2" in path.read_text()


def test_a_held_task_that_is_taken_by_name_runs(project: Project) -> None:
    project.write(HELD)
    done = project.weft("run", "plan.md", "--take", "1.2")
    assert done.returncode == 0, done.stdout + done.stderr
    assert project.states() == {"1.1": "done", "1.2": "done"}


def test_a_kiro_plan_runs_and_its_boxes_follow(project: Project) -> None:
    path = project.root / "tasks.md"
    text = (
        "- [ ] 1. Write\n"
        "  - [ ] 1.1 Write one\n    - script: write one.txt 1\n"
        "  - [ ]* 1.2 Write two\n    - script: write two.txt 2\n"
        "- [ ] 2. Write three\n  - script: write three.txt 3\n"
    )
    path.write_text(text)
    done = project.weft("run", "tasks.md", "--take", "1.2")
    assert done.returncode == 0, done.stdout + done.stderr
    assert path.read_text() == text.replace("[ ]", "[x]")
    assert project.content("two.txt") == "2\n"
