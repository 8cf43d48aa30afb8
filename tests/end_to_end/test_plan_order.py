"""Plan order between tasks that share a file, from end to end."""

from __future__ import annotations

import json

import pytest

from chaos import CHAOS
from end_to_end.run_project import RunProject
from patch_history import file_sets, first_files, write_patches
from repositories import git

PATCHES = 40 if CHAOS else 15


@pytest.mark.chaos
@pytest.mark.timeout(900)
@pytest.mark.parametrize("slots", [1, 4, 8])
def test_a_history_without_depends_lands_with_no_redo_as_the_same_tree(
    project: RunProject, slots: int
) -> None:
    """Ruling 7: each patch applies only to what the earlier patches of its files left."""
    project.write(**first_files())
    patches = project.root.parent / "patches"
    project.shell("implement", f"git apply '{patches}'/$WEFT_TASK.patch")
    project.commit()
    sets = file_sets(7, PATCHES)
    tree = write_patches(project.root, patches, sets)
    tasks = [
        f"- [ ] Task {number}: Apply patch {number}\n  <!-- files: {', '.join(files)} -->\n"
        for number, files in enumerate(sets, 1)
    ]
    project.plan.write_text("## Phase 1: All\n<!-- execution: parallel -->\n\n" + "".join(tasks))
    project.run("plan.md", "--slots", str(slots))
    attempts = project.rows("SELECT task, COUNT(*) AS number FROM attempts GROUP BY task")
    assert [row for row in attempts if row["number"] != 1] == []
    assert git(project.root, "rev-parse", f"weft/{project.run_id()}:src").strip() == tree
    project.assert_landed_once(*(f"1.{number}" for number in range(1, PATCHES + 1)))


def test_a_story_does_not_hold_what_a_task_wants_that_it_needs(project: RunProject) -> None:
    """The story would hold `src/x` until it lands, and one of its subtasks waits for `T`."""
    project.agent("implement")
    project.commit()
    parts = [
        {"id": "a", "description": "script: append src/x a", "files": ["src/x"]},
        {"id": "b", "description": "script: append src/y b", "files": ["src/y"]},
    ]
    parts[1]["depends_on"] = ["T"]
    stories = [
        {"id": "S", "title": "Story", "files": [], "subtasks": parts},
        {"id": "T", "title": "Task", "description": "script: append src/x t", "files": ["src/x"]},
    ]
    project.write(**{"prd.json": json.dumps({"title": "Stories", "stories": stories})})
    project.run("prd.json", "--slots", "3")
    assert project.landed("src/x") == "t\na\n"
