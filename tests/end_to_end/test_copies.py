"""A repository that is copied while a run is under way: two repositories, two stores, two runs."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from databases import look
from end_to_end.run_project import RunProject
from repositories import git
from wait_until import PATIENCE, wait_until
from weft.store import open_store
from weft.store.limit_table import identity

pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def inside(tmp_path: Path) -> Iterator[RunProject]:
    """A project whose store lies in its git directory, as it does by default."""
    made = RunProject(tmp_path, f"sqlite:///{tmp_path}/project/.git/weft/weft.db")
    yield made
    made.close()


def store_of(root: Path) -> str:
    return f"sqlite:///{root}/.git/weft/weft.db"


def commits(root: Path) -> str:
    """The subjects of all commits that any reference or log reaches."""
    return git(root, "log", "--all", "--reflog", "--format=%s")


def test_a_copied_repository_works_on_its_own_and_leaves_the_original_alone(
    inside: RunProject, tmp_path: Path
) -> None:
    """Weakened, the copy takes the original's agents for its own, and its agents' commits go into
    the original."""
    project = inside
    go = tmp_path / "go"
    commit = "git add -A && git -c user.name=a -c user.email=a@b commit -qm work-in-$PWD"
    project.shell("quick", f"cat > /dev/null; echo x > src/p$WEFT_TASK; {commit}")
    project.shell(
        "slow",
        f"cat > /dev/null; while [ ! -e {go} ]; do sleep 0.05; done; echo x > src/q; {commit}",
    )
    project.commit()
    project.plan.write_text(
        "## Phase 1: One\n- [ ] Task 1: Do 1\n  <!-- files: src/**; agent: quick -->\n"
        "## Phase 2: Two\n- [ ] Task 1: Do 2\n  <!-- files: src/q; agent: slow -->\n"
        "## Phase 3: Three\n- [ ] Task 1: Do 3\n  <!-- files: src/**; agent: quick -->\n"
    )
    first = project.start("run", "plan.md", "--slots", "1")
    wait_until(lambda: project.states().get("2.1") == "running" and project.marked())
    copy = tmp_path / "copy"
    subprocess.run(["cp", "-a", project.root, copy], check=True)
    project.root, original = copy, project.root
    second = project.start("run", "--resume", "--slots", "1", WEFT_STORE=store_of(copy))
    wait_until(lambda: len(look(store_of(copy), "SELECT * FROM attempts WHERE task = 2")) == 2)
    with open_store(store_of(copy)) as store:
        assert identity(store) != project.identity
    assert set(project.marked().values()) == {"2.1"}, "the original's agent goes on"
    [lease] = look(project.url, "SELECT * FROM leases WHERE kind = 'attempt' AND state = 'held'")
    assert lease["task"] == 2
    go.touch()
    for process in (first, second):
        out, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, (out, err)
    assert f"work-in-{copy}" in commits(copy)
    assert f"work-in-{copy}" not in commits(original)
    for root in (original, copy):
        states = look(store_of(root), "SELECT state FROM tasks")
        assert {row["state"] for row in states} == {"done"}
        assert git(root, "fsck", "--no-dangling", "--no-progress") == ""
        [run] = look(store_of(root), "SELECT * FROM runs")
        assert git(root, "show", f"weft/{run['id']}:src/q") == "x\n"
    assert look(project.url, "SELECT * FROM events WHERE kind = 'store_copied'") == []


def test_a_moved_repository_keeps_its_identity_and_makes_its_workspaces_anew(
    inside: RunProject, tmp_path: Path
) -> None:
    project = inside
    project.plan.write_text(
        "- [ ] Task 1: Do\n  <!-- files: src/p -->\n  - script: write src/p x\n"
    )
    project.run("plan.md")
    before = project.identity
    moved = tmp_path / "moved"
    shutil.move(project.root, moved)
    project.root = moved
    project.plan = moved / "plan.md"
    project.plan.write_text(
        "- [ ] Task 1: Again\n  <!-- files: src/p -->\n  - script: write src/p y\n"
    )
    answer = project.run("plan.md", WEFT_STORE=store_of(moved))
    assert {one["state"] for one in answer["tasks"]} == {"done"}, json.dumps(answer)
    with open_store(store_of(moved)) as store:
        assert identity(store) == before
    entries = git(moved, "worktree", "list", "--porcelain").split("\n\n")
    used = [entry for entry in entries if f"worktree {moved}.weft/" in entry]
    assert used
    assert "prunable" not in "".join(used)  # an entry of the old place waits for its next use
