"""Branches that a run may be told to move, and those it may not."""

from __future__ import annotations

from pathlib import Path

import pytest

from repositories import git, make_repository
from weft.errors import InputError
from weft.runs.preparation import require_target


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = make_repository(tmp_path / "project")
    git(root, "branch", "behind")
    git(root, "commit", "-q", "--allow-empty", "-m", "more")
    git(root, "branch", "level")
    more = git(root, "commit-tree", "HEAD^{tree}", "-p", "HEAD", "-m", "more")
    git(root, "branch", "ahead", more.strip())
    return root


@pytest.mark.parametrize("branch", ["behind", "level", "new", "new/with/parts", "Größe"])
def test_a_branch_that_can_move_forward_or_begin_is_taken(root: Path, branch: str) -> None:
    require_target(root, branch, git(root, "rev-parse", "HEAD").strip())


@pytest.mark.parametrize(
    ("branch", "words"),
    [
        ("main", "checked out in"),
        ("ahead", "--base ahead"),
        ("", "no branch can be called that"),
        ("a..b", "no branch can be called that"),
        ("a b", "no branch can be called that"),
        ("-x", "no branch can be called that"),
        ("@{-1}", "no branch can be called that"),
        ("a\\0b", "no branch can be called that"),
        ("refs/heads/level", "no branch can be called that"),
        ("weft/plan-1", "weft's own"),
        ("weft-work/x", "weft's own"),
        ("level/more", "beside the branch level"),
        ("parts", "beside the branch parts/one"),
    ],
)
def test_one_that_cannot_is_refused_by_name(root: Path, branch: str, words: str) -> None:
    git(root, "branch", "parts/one")
    refs = git(root, "for-each-ref")
    with pytest.raises(InputError) as refused:
        require_target(root, branch, git(root, "rev-parse", "HEAD").strip())
    assert f"--into {branch}" in str(refused.value)
    assert words in str(refused.value)
    assert git(root, "for-each-ref") == refs
