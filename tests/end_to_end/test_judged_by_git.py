"""Invariants 18 and 21, judged by git and the file system alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from end_to_end.run_project import RunProject
from repositories import git
from user_state import walk

pytestmark = pytest.mark.timeout(600)

MEDDLING: dict[str, Callable[[Path], object]] = {
    "an edited file": lambda root: (root / "src/README").write_text("other\n"),
    "a new file": lambda root: (root / "src/new").touch(),
    "a mode": lambda root: (root / "src/README").chmod(0o755),
    "a deleted file": lambda root: (root / "src/README").unlink(),
    "an ignored file": lambda root: (root / "ignored.log").write_text("other\n"),
    "the index": lambda root: git(root, "rm", "-qf", "--cached", "src/README"),
    "the stash": lambda root: git(root, "stash", "drop", "-q"),
    "a branch": lambda root: git(root, "branch", "-f", "mine", "HEAD~"),
    "a new branch": lambda root: git(root, "branch", "other"),
    "a tag": lambda root: git(root, "tag", "-d", "v1"),
    "HEAD": lambda root: git(root, "symbolic-ref", "HEAD", "refs/heads/mine"),
    "a setting": lambda root: git(root, "config", "user.name", "other"),
    "a hook": lambda root: (root / ".git/hooks/pre-commit").write_text("exit 1\n"),
    "an exclusion": lambda root: (root / ".git/info/exclude").write_text("*\n"),
}


def litter(root: Path) -> None:
    """Work of a person's, in every state that git knows."""
    (root / ".gitignore").write_text("plan.md\nprd.json\n*.log\n")
    git(root, "commit", "-qam", "second")
    git(root, "branch", "mine")
    git(root, "tag", "v1")
    (root / "src/README").write_text("to be stashed\n")
    git(root, "stash", "-q")
    (root / "ignored.log").write_text("ignored\n")
    (root / "src/README").write_text("staged\n")
    git(root, "add", "src/README")
    (root / "src/README").write_text("edited\n")
    (root / "src/untracked").write_text("untracked\n")
    (root / "src/link").symlink_to("README")


@pytest.mark.parametrize("what", MEDDLING)
def test_the_walk_notices(project: RunProject, what: str) -> None:
    litter(project.root)
    before = walk(project.root)
    assert walk(project.root) == before
    MEDDLING[what](project.root)
    assert walk(project.root) != before


def test_a_run_with_refusals_and_crashes_leaves_what_is_the_users_as_it_was(
    project: RunProject,
) -> None:
    project.plan.write_text(
        "## Phase 1: All\n<!-- execution: parallel -->\n\n"
        "- [ ] Task 1: Good\n  <!-- files: src/README -->\n  - script: write src/README x\n"
        "- [ ] Task 2: Crash\n  <!-- files: src/b -->\n  - script: attempt 1: crash KILL\n"
        "  - script: write src/b x\n"
        "- [ ] Task 3: Red\n  <!-- files: src/c -->\n  - script: attempt 1: write src/c BROKEN\n"
        "  - script: write src/c x\n"
        "- [ ] Task 4: Stash\n  <!-- files: src/untracked -->\n  - script: write src/untracked x\n"
    )
    litter(project.root)
    with project.untouched():
        project.run("plan.md", "--slots", "3")
    project.assert_landed_once("1.1", "1.2", "1.3", "1.4")
    with project.untouched():
        assert project.weft("clean").returncode == 0
        assert project.weft("report").returncode == 0


@pytest.mark.parametrize("each", [False, True], ids=["every landing", "every commit"])
def test_the_tree_that_a_check_saw_is_the_tree_that_landed(
    project: RunProject, tmp_path: Path, *, each: bool
) -> None:
    """The check itself writes down the tree of the files before it. Weakened, it runs on the
    base: weft's own records agree with each other all the same."""
    seen = tmp_path / "seen"
    check = (
        f"export GIT_INDEX_FILE=$(mktemp -u) && git add -A -f . && git write-tree >> {seen}; "
        "! grep -rqs BROKEN src"
    )
    project.settings(check, "every_commit = true\n" if each else "")
    project.commit()
    tasks = [
        f"- [ ] Task {n}: Do {n}\n  <!-- files: src/p{n} -->\n"
        + ("  - script: attempt 1: write src/p3 BROKEN\n" if n == 3 else "")
        + f"  - script: write src/p{n} x\n"
        for n in range(1, 7)
    ]
    project.plan.write_text("## Phase 1: All\n<!-- execution: parallel -->\n\n" + "\n".join(tasks))
    project.run("plan.md", "--slots", "3")
    trunk = f"refs/heads/weft/{project.run_id()}"
    if each:
        landed = git(project.root, "rev-list", "--first-parent", f"main..{trunk}").split()
    else:
        landed = git(project.root, "reflog", "--format=%H", trunk).split()[:-1]  # not its beginning
    assert landed
    trees = {git(project.root, "rev-parse", f"{one}^{{tree}}").strip() for one in landed}
    assert trees <= set(seen.read_text().split())
