from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from repositories import commit_all, git, make_candidate, make_repository, prepare, write
from weft.workspace import Unkeepable, changes, clean, release


@pytest.fixture
def root(tmp_path: Path) -> Path:
    library = make_repository(tmp_path / "library")
    root = make_repository(tmp_path / "repository")
    add = ("-c", "protocol.file.allow=always", "submodule", "add", "--name", "the library")
    git(root, *add, str(library), "vendor/lib")
    commit_all(root)
    return root


def test_a_submodule_is_filled_from_the_repositorys_own_module(root: Path) -> None:
    shutil.rmtree(root.parent / "library")  # nothing is fetched
    for attempt in (1, 2):  # made, and used again
        place = prepare(root, attempt=attempt)
        assert (place.path / "vendor" / "lib" / "dir" / "b").read_text() == "b\n"
        assert git(place.path, "status", "--porcelain") == ""
        assert changes(place).paths == ()
        write(place.path, a=f"{attempt}\n")
        assert git(root, "ls-tree", make_candidate(place), "vendor/lib") == git(
            root, "ls-tree", "HEAD", "vendor/lib"
        )
        assert release(place).obstacle is None
    assert git(root, "status", "--porcelain") == ""


def test_work_in_a_submodule_is_never_lost(root: Path) -> None:
    place = prepare(root)
    write(place.path / "vendor" / "lib", a="mine\n")
    assert release(place).obstacle == "vendor/lib is a repository with changes of its own."
    [kept] = clean(root).kept
    assert "vendor/lib" in kept.why


def test_a_commit_that_only_a_workspace_has_does_not_land(root: Path) -> None:
    with prepare(root) as place:
        write(place.path / "vendor" / "lib", a="mine\n")
        commit_all(place.path / "vendor" / "lib")
        with pytest.raises(Unkeepable, match="The submodule vendor/lib is at"):
            changes(place)


def test_a_submodule_that_is_not_here_stays_empty(root: Path) -> None:
    shutil.rmtree(root / ".git" / "modules")
    with prepare(root) as place:
        assert list((place.path / "vendor" / "lib").iterdir()) == []
        assert changes(place).paths == ()
