"""The repository of a checkout, as the store knows it.

The id in the git configuration names it. Where the store knows that id at another place, the
repository was moved, or it is a copy of all files: a copy gets an id of its own. The record of the
store outranks the configuration, which an agent could change.
"""

from __future__ import annotations

import time
from pathlib import Path

from weft import git
from weft.git.refs import find_commits
from weft.git.repository import find_repository_id, find_root_commit, write_repository_id
from weft.process.process_identity import get_place
from weft.store import Store
from weft.store.repositories import (
    HomeRepository,
    find_repository,
    find_repository_at,
    has_workers_on,
    record_repository,
)
from weft.workspace.locks import Lock


def get_repository(root: Path, store: Store) -> str:
    """Return the id of the repository of a checkout; record a new repository or a new place."""
    common = git.common_directory(root)
    id = find_repository_id(common)
    known = None if id is None else find_repository(store, id)
    if known is not None and _is_at(known, common):
        return known.id
    lock = Lock(common / "weft" / "repository-lock")
    try:
        lock.wait()
        return _settle(common, store)
    finally:
        lock.close()


def _is_at(known: HomeRepository, common: Path) -> bool:
    place = (get_place().host, str(common), common.stat().st_ino)
    return (known.host, known.path, known.inode) == place


def _settle(common: Path, store: Store) -> str:
    host, path, inode = get_place().host, str(common), common.stat().st_ino
    id = find_repository_id(common)
    before = find_repository_at(store, host, path, inode)
    if before is not None and _has_root(common, before.root):
        if before.id != id:
            write_repository_id(common, before.id)
        return before.id
    known = None if id is None else find_repository(store, id)
    if id is None or (known is not None and _is_copy(store, known, common, inode)):
        id = write_repository_id(common)
    root = find_root_commit(common)
    here = HomeRepository(id=id, host=host, path=path, inode=inode, root=root)
    record_repository(store, here, now=time.time())
    return id


def _is_copy(store: Store, known: HomeRepository, common: Path, inode: int) -> bool:
    """Tell a copy from a repository that was moved, or whose host was renamed."""
    if not _has_root(common, known.root):
        return True  # only the configuration was copied
    if known.host == get_place().host:
        return known.path != str(common) and _find_inode(Path(known.path)) == known.inode
    same = (known.path, known.inode) == (str(common), inode)
    return not same or has_workers_on(store, known.host, known.id)


def _has_root(common: Path, root: str) -> bool:
    return not root or bool(find_commits(common, [root]))


def _find_inode(path: Path) -> int | None:
    try:
        return path.stat().st_ino
    except OSError:
        return None
