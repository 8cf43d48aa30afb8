"""A store in a file that was copied or moved, told apart by path and inode of its directory."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from store_helpers import go, hire, put
from weft.store import open_store
from weft.store.copies import StorePlace, is_copy
from weft.store.leases import list_open
from weft.store.limit_table import identity

STORE = "weft.db"


def url(directory: Path) -> str:
    return f"sqlite:///{directory / STORE}"


def make(directory: Path) -> str:
    """A store with a task that runs; return its identity."""
    directory.mkdir()
    with open_store(url(directory)) as store:
        hire(store)
        put(store, "a")
        go(store)
        return identity(store)


def test_a_copied_store_is_a_store_of_its_own(tmp_path: Path) -> None:
    original, copy = tmp_path / "original", tmp_path / "copy"
    before = make(original)
    shutil.copytree(original, copy)
    with open_store(url(copy)) as store:
        assert identity(store) != before
        assert list_open(store) == []
    with open_store(url(original)) as store:
        assert identity(store) == before
        assert len(list_open(store)) == 1


def test_a_store_that_was_moved_is_the_same(tmp_path: Path) -> None:
    before = make(tmp_path / "original")
    (tmp_path / "original").rename(tmp_path / "moved")
    with open_store(url(tmp_path / "moved")) as store:
        assert identity(store) == before
        assert len(list_open(store)) == 1


def test_a_copy_on_another_file_system_may_have_the_same_inode(tmp_path: Path) -> None:
    (tmp_path / "original").mkdir()
    before = StorePlace.of(tmp_path / "original")
    assert is_copy(before, StorePlace(tmp_path / "copy", before.inode))
    (tmp_path / "original").rename(tmp_path / "moved")
    assert not is_copy(before, StorePlace(tmp_path / "moved", before.inode))


def test_a_store_that_is_listened_to_is_no_copy_although_its_inode_is_another(
    tmp_path: Path,
) -> None:
    """Some file systems number their files anew each time they are mounted."""
    bell = tmp_path / "weft.db.bells" / "1"
    bell.parent.mkdir()
    os.mkfifo(bell)
    here = StorePlace.of(tmp_path)
    before = StorePlace(here.path, here.inode + 1)
    assert is_copy(before, here)
    reader = os.open(bell, os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert not is_copy(before, here)
    finally:
        os.close(reader)
