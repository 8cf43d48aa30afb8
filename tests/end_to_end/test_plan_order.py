"""Plan order between tasks that share a file, from end to end."""

from __future__ import annotations

import json

import pytest

from end_to_end.run_project import Yard
from patch_history import file_sets, first_files, write_patches
from repositories import git

PATCHES = 40


@pytest.mark.timeout(900)
@pytest.mark.parametrize("slots", [1, 4, 8])
def test_a_history_without_depends_lands_with_no_redo_as_the_same_tree(
    yard: Yard, slots: int
) -> None:
    """Ruling 7: each patch applies only to what the earlier patches of its files left."""
    yard.write(**first_files())
    patches = yard.root.parent / "patches"
    yard.shell("implement", f"git apply '{patches}'/$WEFT_TASK.patch")
    yard.commit()
    sets = file_sets(7, PATCHES)
    tree = write_patches(yard.root, patches, sets)
    tasks = [
        f"- [ ] Task {number}: Apply patch {number}\n  <!-- files: {', '.join(files)} -->\n"
        for number, files in enumerate(sets, 1)
    ]
    yard.plan.write_text("## Phase 1: All\n<!-- execution: parallel -->\n\n" + "".join(tasks))
    yard.run("plan.md", "--slots", str(slots))
    attempts = yard.rows("SELECT task, COUNT(*) AS number FROM attempts GROUP BY task")
    assert [row for row in attempts if row["number"] != 1] == []
    assert git(yard.root, "rev-parse", f"weft/{yard.run_id()}:src").strip() == tree
    yard.assert_landed_once(*(f"1.{number}" for number in range(1, PATCHES + 1)))


def test_a_story_does_not_hold_what_a_task_wants_that_it_needs(yard: Yard) -> None:
    """The story would hold `src/x` until it lands, and one of its subtasks waits for `T`."""
    yard.agent("implement")
    yard.commit()
    parts = [
        {"id": "a", "description": "script: append src/x a", "files": ["src/x"]},
        {"id": "b", "description": "script: append src/y b", "files": ["src/y"]},
    ]
    parts[1]["depends_on"] = ["T"]
    stories = [
        {"id": "S", "title": "Story", "files": [], "subtasks": parts},
        {"id": "T", "title": "Task", "description": "script: append src/x t", "files": ["src/x"]},
    ]
    yard.write(**{"prd.json": json.dumps({"title": "Stories", "stories": stories})})
    yard.run("prd.json", "--slots", "3")
    assert yard.landed("src/x") == "t\na\n"
