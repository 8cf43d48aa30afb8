"""Repositories have ids: a path is neither necessary nor enough to know one."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from msgspec.structs import replace

from repositories import git, make_repository
from store_helpers import hire
from weft.git.repository import find_repository_id, write_repository_id
from weft.model import NewRun, NewTask
from weft.project.own_repository import get_repository
from weft.store import Store
from weft.store.repositories import find_repository, record_repository
from weft.store.runs import get_run, submit_run


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "project")


def test_a_repository_keeps_its_id_in_every_checkout_and_when_it_is_moved(
    store: Store, root: Path, tmp_path: Path
) -> None:
    id = get_repository(root, store)
    assert git(root, "config", "weft.repository").strip() == id == find_repository_id(root / ".git")
    git(root, "worktree", "add", "-q", str(tmp_path / "other"))
    assert get_repository(tmp_path / "other", store) == id
    root.rename(tmp_path / "moved")
    assert get_repository(tmp_path / "moved", store) == id
    known = find_repository(store, id)
    assert known is not None
    assert known.path == str(tmp_path / "moved" / ".git")


def test_a_copy_of_all_files_and_a_clone_are_other_repositories(
    store: Store, root: Path, tmp_path: Path
) -> None:
    """Weakened, the claims and workspaces of one copy would be taken for those of the other."""
    id = get_repository(root, store)
    copy = tmp_path / "copy"
    subprocess.run(["cp", "-a", root, copy], check=True)
    git(tmp_path, "clone", "-q", str(root), "clone")
    ids = {id, get_repository(copy, store), get_repository(tmp_path / "clone", store)}
    assert len(ids) == 3
    assert get_repository(root, store) == id


def test_a_copy_at_the_same_path_on_another_host_is_another_repository(
    store: Store, root: Path
) -> None:
    id = get_repository(root, store)
    known = find_repository(store, id)
    assert known is not None
    elsewhere = replace(known, host="elsewhere")
    record_repository(store, replace(elsewhere, inode=known.inode + 1), now=0)
    other = get_repository(root, store)
    assert other != id, "the path is the same, the directory is not"
    record_repository(store, replace(elsewhere, id=other), now=0)
    hire(store, "w", host="elsewhere", repos=(other,))
    assert get_repository(root, store) not in (id, other), "its worker there is at work"


def test_a_renamed_host_keeps_its_repositories(store: Store, root: Path) -> None:
    id = get_repository(root, store)
    known = find_repository(store, id)
    assert known is not None
    record_repository(store, replace(known, host="old-name"), now=0)
    assert get_repository(root, store) == id


def test_the_id_alone_makes_no_repository_another_one(
    store: Store, root: Path, tmp_path: Path
) -> None:
    """Weakened, a configuration that is copied from a template would join two projects."""
    id = get_repository(root, store)
    other = make_repository(tmp_path / "other")
    git(other, "commit", "-q", "--amend", "--allow-empty", "-m", "another root")
    git(other, "reflog", "expire", "--expire=now", "--all")
    git(other, "gc", "-q", "--prune=now")
    root.rename(tmp_path / "away")
    write_repository_id(other / ".git", id)
    assert get_repository(other, store) != id


def test_an_id_that_an_agent_changed_is_put_back(store: Store, root: Path) -> None:
    id = get_repository(root, store)
    for broken in ("0" * 32, "rubbish"):
        git(root, "config", "weft.repository", broken)
        assert get_repository(root, store) == id
        assert find_repository_id(root / ".git") == id
    git(root, "config", "--unset", "weft.repository")
    assert get_repository(root, store) == id


def test_an_id_in_an_unusual_form_is_read(root: Path) -> None:
    id = "ab" * 16
    config = root / ".git" / "config"
    config.write_text(config.read_text() + f'[weft] repository = "{id}"\n[other]\n\tx = 1\n')
    assert find_repository_id(root / ".git") == id


def test_rows_of_a_store_with_paths_get_the_id(store: Store, root: Path) -> None:
    submit_run(store, NewRun(id="r", repo=str(root / ".git")), [NewTask(name="a")], now=0)
    id = get_repository(root, store)
    assert get_run(store, "r").repo == id
