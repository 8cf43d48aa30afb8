"""Where working trees lie: outside dot directories, and each with its own repository."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from repositories import git, make_repository, write
from weft.config import WorkspaceSettings
from weft.errors import WorkspaceError
from weft.workspace import Terms, Workspace, attach, branch_ref, clean, find_copied, release
from weft.workspace import prepare as prepare_branch
from weft.workspace.place import find_place


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "shop")


def prepare(root: Path, number: int = 1, place: str = "") -> Workspace:
    terms = Terms(rules=WorkspaceSettings(root=place))
    return prepare_branch(root, branch_ref("r", "t", number), "main", terms=terms)


def archived(root: Path) -> set[str]:
    """The contents of the file `a` in all archived commits."""
    refs = git(root, "for-each-ref", "--format=%(refname)", "refs/weft/archive").split()
    return {git(root, "show", f"{ref}:a") for ref in refs}


def test_a_workspace_lies_beside_the_repository_without_a_dot_directory(root: Path) -> None:
    place = prepare(root)
    assert place.path == root.parent / "shop.weft" / "weft-1"
    assert not any(part.startswith(".") for part in place.path.parts)
    assert git(root, "status", "--porcelain", "--ignored") == ""
    assert git(place.path, "status", "--porcelain") == ""
    release(place)
    clean(root)
    assert not (root.parent / "shop.weft").exists()


def test_the_directory_of_another_program_is_not_used(root: Path) -> None:
    write(root.parent / "shop.weft", notes="mine\n")
    place = prepare(root)
    assert place.path.parent != root.parent / "shop.weft"
    assert place.path.parent.name.startswith("shop-")
    release(place)
    clean(root)
    assert [entry.name for entry in (root.parent / "shop.weft").iterdir()] == ["notes"]


def test_a_repository_below_a_dot_directory_keeps_workspaces_in_the_home_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    hidden = make_repository(tmp_path / ".config" / "shop")
    place = prepare(hidden)
    assert place.path.parent.parent == tmp_path / "weft-workspaces"
    release(place)
    clean(hidden)
    assert not (tmp_path / "weft-workspaces").exists()
    monkeypatch.setenv("HOME", str(tmp_path / ".config"))
    place = prepare(hidden, 2)
    assert place.path.is_relative_to(hidden / ".git" / "weft" / "workspaces")


def test_a_repository_inside_another_checkout_does_not_show_there(tmp_path: Path) -> None:
    outer = make_repository(tmp_path / "outer")
    inner = make_repository(outer / "inner")
    before = git(outer, "status", "--porcelain")
    prepare(inner)
    assert git(outer, "status", "--porcelain") == before


def test_the_root_of_the_settings_holds_a_directory_per_repository(
    root: Path, tmp_path: Path
) -> None:
    scratch = tmp_path / "scratch"
    places = [prepare(root, place=str(scratch)), prepare(make_repository(tmp_path / "b"))]
    other = prepare(make_repository(tmp_path / "else" / "shop"), place=str(scratch))
    assert places[0].path.parent.parent == other.path.parent.parent == scratch
    assert places[0].path != other.path
    with pytest.raises(WorkspaceError, match="lies inside the repository"):
        prepare(root, 2, place="build/workspaces")


def test_another_root_moves_free_workspaces_and_leaves_used_ones(
    root: Path, tmp_path: Path
) -> None:
    used, free = prepare(root, 1), prepare(root, 2)
    write(used.path, a="work\n")
    release(free)
    used.close()
    fresh = prepare(root, 3, place=str(tmp_path / "scratch"))
    assert fresh.path.is_relative_to(tmp_path / "scratch")
    assert not free.path.exists()
    assert (attach(root, used.branch).path / "a").read_text() == "work\n"


def test_a_workspace_that_an_earlier_weft_made_below_git_is_archived_and_moves(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record of such a workspace names no place."""
    monkeypatch.setenv("HOME", "/nonexistent")
    root.parent.joinpath("shop.weft").write_text("in the way\n")
    digest = find_place(root / ".git", "")
    assert digest is not None
    digest.write_text("in the way too\n")
    old, free = prepare(root, 1), prepare(root, 2)
    assert old.path.is_relative_to(root / ".git")
    write(old.path, a="unlanded\n")
    release(free)
    old.close()
    (root.parent / "shop.weft").unlink()
    digest.unlink()
    with attach(root, old.branch) as again:
        assert (again.path / "a").read_text() == "unlanded\n"
    assert prepare(root, 3).path.parent == root.parent / "shop.weft"
    assert not free.path.exists()
    clean(root)
    assert archived(root) == {"unlanded\n"}
    assert not old.path.exists()


@pytest.mark.parametrize("how", ["renamed", "elsewhere", "with its parent"])
def test_the_work_of_a_moved_repository_is_archived(tmp_path: Path, how: str) -> None:
    root = make_repository(tmp_path / "code" / "shop")
    place = prepare(root)
    write(place.path, a="unlanded\n")
    place.close()
    if how == "with its parent":
        (tmp_path / "code").rename(tmp_path / "projects")
        moved = tmp_path / "projects" / "shop"
    else:
        moved = tmp_path / ("code/store" if how == "renamed" else "far/store")
        moved.parent.mkdir(exist_ok=True)
        root.rename(moved)
    assert find_copied(moved) == [place.branch]
    release(attach(moved, place.branch))
    assert archived(moved) == {"unlanded\n"}
    fresh = prepare(moved, 2)
    assert fresh.path.is_relative_to(moved.parent)
    assert git(fresh.path, "status", "--porcelain") == ""
    if how != "with its parent":
        assert not (tmp_path / "code" / "shop.weft").exists(), "the old place is empty and goes"


@pytest.mark.parametrize("what", ["shop", "code"])
def test_a_copy_leaves_the_workspaces_of_its_original_alone(tmp_path: Path, what: str) -> None:
    root = make_repository(tmp_path / "code" / "shop")
    place = prepare(root)
    write(place.path, a="unlanded\n")
    source, target = (
        (root, tmp_path / "code" / "copy")
        if what == "shop"
        else (
            tmp_path / "code",
            tmp_path / "copy",
        )
    )
    subprocess.run(["cp", "-a", source, target], check=True)
    copy = target if what == "shop" else target / "shop"
    for branch in find_copied(copy):
        release(attach(copy, branch))
    fresh = prepare(copy, 2)
    write(fresh.path, a="of the copy\n")
    assert not fresh.path.is_relative_to(place.path.parent)
    release(fresh)
    clean(copy)
    assert (place.path / "a").read_text() == "unlanded\n"
    assert git(place.path, "status", "--porcelain").split() == ["M", "a"]
    release(place)
    assert archived(root) == {"unlanded\n"}


def test_working_trees_stay_when_their_records_are_deleted(root: Path) -> None:
    place = prepare(root)
    write(place.path, a="unlanded\n")
    place.close()
    shutil.rmtree(root / ".git" / "weft")
    git(root, "update-ref", "-d", place.branch)
    assert prepare(root).path != place.path
    assert (place.path / "a").read_text() == "unlanded\n"
