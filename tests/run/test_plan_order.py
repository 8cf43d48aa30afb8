"""Plan order between tasks that share a file, from end to end."""

from __future__ import annotations

import pytest

from patch_history import file_sets, first_files, write_patches
from repositories import git
from run.yard import Yard

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
