"""A git that is killed at any of weft's calls is started again, and nobody is asked."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from chaos import CHAOS
from dying_git import WAYS, DyingGit
from repositories import content, git, make_candidate, make_repository, prepare, write
from weft import workspace
from weft.errors import WeftError
from weft.git import RefMoved, Update, find_ref, list_refs, update_refs
from weft.git.repository import find_repository_id, write_repository_id


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "repository")


@pytest.fixture
def dying(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DyingGit:
    made = DyingGit(tmp_path)
    monkeypatch.setenv("PATH", made.path)
    return made


@pytest.mark.chaos
@pytest.mark.parametrize(
    ("way", "per_worktree"), [*((way, False) for way in WAYS), ("after", True)]
)
def test_an_attempts_workspace_survives_the_death_of_any_git(
    root: Path, dying: DyingGit, way: str, *, per_worktree: bool
) -> None:
    """Made, worked in, made a candidate of, freed, and renewed at another commit.

    Each call dies in one of the ways; in `make chaos`, in each.
    """
    other = git(root, "commit-tree", "-m", "other", make_other(root)).strip()
    if per_worktree:
        git(root, "config", "extensions.worktreeConfig", "true")
        (root / ".git/config.worktree").write_text("[user]\n\tname = p\n")

    def live(number: int) -> None:
        place = prepare(root, task=f"{way}{number}")
        write(place.path, a=f"changed {number}\n", new="new\n")
        made = make_candidate(place)
        assert content(root, made, "a") == f"changed {number}\n"
        assert workspace.release(place).refs == ()
        again = prepare(root, task=f"{way}{number}", attempt=2, base=other)
        assert (again.path / "other").read_text() == "other\n"
        assert not (again.path / "a").exists()
        assert git(again.path, "status", "--porcelain") == ""
        workspace.discard(again)

    dying.each_once(live, way, step=1 if CHAOS else len(WAYS))
    assert list((root / ".git").rglob("*.lock")) == []
    assert git(root, "fsck", "--no-dangling", "--no-progress") == ""


def make_other(root: Path) -> str:
    """A tree that shares nothing with the first commit's."""
    write(root.parent, other="other\n")
    blob = git(root, "hash-object", "-w", str(root.parent / "other")).strip()
    index = {"GIT_INDEX_FILE": str(root.parent / "index")}
    git(root, "update-index", "--add", "--cacheinfo", f"100644,{blob},other", **index)
    return git(root, "write-tree", **index).strip()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("packed", [False, True])
def test_many_references_move_although_git_dies(
    root: Path, dying: DyingGit, way: str, *, packed: bool
) -> None:
    first = git(root, "rev-parse", "HEAD").strip()
    second = git(root, "commit-tree", "-p", "HEAD", "-m", "second", "HEAD^{tree}").strip()
    names = [f"refs/weft/work/r/{name}/1" for name in "abc"]
    update_refs(root, [Update(ref=name, old=None, new=first) for name in names[:2]])
    if packed:
        git(root, "pack-refs", "--all")
    dying.set(f"[ $number = 1 ] && how={way}")
    update_refs(
        root,
        [
            Update(ref=names[0], old=first, new=second),
            Update(ref=names[1], old=first, new=None),
            Update(ref=names[2], old=None, new=second),
        ],
    )
    assert len(dying.deaths) == 1
    assert list_refs(root, "refs/weft/work/") == {names[0]: second, names[2]: second}
    assert list((root / ".git").rglob("*.lock")) == []


def test_a_lock_that_another_git_holds_is_left_alone(root: Path, dying: DyingGit) -> None:
    """It was there before the git that died began."""
    ref = "refs/weft/work/r/a/1"
    tip = git(root, "rev-parse", "HEAD").strip()
    lock = root / ".git" / f"{ref}.lock"
    lock.parent.mkdir(parents=True)
    lock.touch()
    os.utime(lock, (time.time() - 60, time.time() - 60))
    dying.set("[ $number = 1 ] && how=before")
    with pytest.raises(RefMoved, match="lock"):
        update_refs(root, [Update(ref=ref, old=None, new=tip)])
    assert lock.exists()
    assert find_ref(root, ref) is None


@pytest.mark.parametrize("way", ["before", "after", "locked"])
def test_the_id_of_a_repository_is_written_by_a_git_that_dies(
    root: Path, dying: DyingGit, way: str
) -> None:
    dying.set(f"[ $number = 1 ] && how={way}")
    id = write_repository_id(root / ".git")
    assert len(dying.deaths) == 1
    assert find_repository_id(root / ".git") == id
    assert not (root / ".git/config.lock").exists()


def test_the_lock_of_another_git_stays_when_the_id_cannot_be_written(
    root: Path, dying: DyingGit
) -> None:
    (root / ".git/config.lock").touch()
    dying.set("[ $number = 1 ] && how=before")
    with pytest.raises(WeftError, match="lock"):
        write_repository_id(root / ".git")
    assert (root / ".git/config.lock").exists()
