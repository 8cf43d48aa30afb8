"""Hand-out of workspaces: a free workspace is renewed where that is safe, or a new one is made.

A single process at a time chooses a workspace, writes its record and creates the branch; files are
checked out afterwards, in parallel. A process that dies in between leaves a record in the phase
`making`, and the next process starts it over.
"""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from weft import git
from weft.errors import BranchTaken, InputError, WorkspaceError
from weft.git import Commit, GitFailed, Update
from weft.workspace import archive, place, worktree
from weft.workspace.locks import Lock, handed_on
from weft.workspace.names import BRANCHES
from weft.workspace.nested_repositories import fill_submodules
from weft.workspace.setup import normalise, tear_down
from weft.workspace.workspace_records import (
    Record,
    Slot,
    Terms,
    Workspace,
    WorkspacePhase,
    WorkspacePool,
    lock_branch,
    registering,
    try_lock,
    write_record,
)

_NEW: Final = Record(phase=WorkspacePhase.MAKING)


def prepare(
    repository: Path,
    branch: str,
    base: str,
    *,
    owner: str = "",
    settings: Mapping[str, str] | None = None,
    terms: Terms | None = None,
    claims: Collection[str] = (),
    preferred: Path | None = None,
) -> Workspace:
    """Prepare a clean workspace at a commit, on a new branch; `branch` as `names.branch_ref` gives
    it.

    `owner` is recorded, so that `handed_out` can name the owner. `settings` are the repository's,
    if the caller has read them. In a sparse checkout, the paths in `claims` are checked out as
    well. The workspace at the path `preferred` is taken if it is free.
    """
    terms = terms or Terms()
    if not branch.startswith(BRANCHES):
        raise InputError(f"{branch!r} is no branch of an attempt; those start with {BRANCHES}.")
    pool = WorkspacePool.of(repository)
    commit = _get_base(repository, base)
    settings = worktree.checkout_settings(
        git.read_settings(repository) if settings is None else settings
    )
    if claims and worktree.is_sparse(settings):
        settings["core.sparsecheckoutcone"] = "false"  # a cone cannot contain single files
    slot, lock, old, kept = _register(pool, branch, commit, settings, terms, preferred)
    with handed_on(lock):
        record = slot.get_record()
        admin = worktree.admin_directory(slot, record)
        assert admin is not None
        worktree.write_view(slot, settings, git.git_directory(repository), claims)
        view = slot.git_view(settings, lock, breaker=terms.breaker)
        if old is None:
            worktree.fill(slot, view, commit.tree, admin=admin)
        else:
            wanted = {normalise(name) for name in terms.rules.keep}
            kept = {name: digest for name, digest in kept.items() if name in wanted}
            worktree.renew(slot, view, old, commit.tree, admin=admin, commit=commit.id, kept=kept)
        fill_submodules(view, pool.common, commit.tree)
        record = replace(record, phase=WorkspacePhase.READY, owner=owner)
        slot.write_record(record)
        return Workspace.of(slot, record, lock, terms)


def attach(repository: Path, branch: str, *, terms: Terms | None = None) -> Workspace:
    """Return the workspace on a branch that another process prepared and released."""
    locked = lock_branch(WorkspacePool.of(repository), branch)
    if locked is not None:
        slot, record, lock = locked
        if record.phase is WorkspacePhase.READY:
            return Workspace.of(slot, record, lock, terms or Terms())
        lock.close()
    raise WorkspaceError(f"There is no workspace of {branch}; prepare one.")


def list_handed_out(repository: Path) -> list[tuple[str, str]]:
    """List owner and branch of each workspace that is handed out."""
    return [
        (record.owner, record.branch)
        for _, record in WorkspacePool.of(repository).registered()
        if record.phase is WorkspacePhase.READY and record.branch is not None
    ]


def find_copied(repository: Path) -> list[str]:
    """Return the branches of workspaces that were handed out before the repository was copied
    here."""
    pool = WorkspacePool.of(repository)
    return [
        record.branch
        for _, record in pool.registered()
        if record.phase is WorkspacePhase.READY and record.branch and record.home != pool.home
    ]


def _get_base(repository: Path, base: str) -> Commit:
    try:
        return git.get_commit(repository, base)
    except git.NoSuchCommit:
        if git.has_commits(repository):
            raise
        raise WorkspaceError(
            f"{repository} has no commits yet, so there is nothing to start from; commit first."
        ) from None


def _register(
    pool: WorkspacePool,
    branch: str,
    commit: Commit,
    settings: Mapping[str, str],
    terms: Terms,
    preferred: Path | None,
) -> tuple[Slot, Lock, str | None, Mapping[str, str]]:
    """Take a workspace and create the branch; return also its present checkout and kept
    directories."""
    ours = Record(
        phase=WorkspacePhase.MAKING,
        branch=branch,
        base=commit.id,
        tree=commit.tree,
        settings=settings,
        home=pool.home,
    )
    with registering(pool) as alone:
        root = place.open_place(pool.common, terms.rules.root)
        slot, lock = _choose(pool, branch, commit, terms, preferred)
        with handed_on(lock):
            record = slot.get_record()
            if _may_renew(slot, record, settings, root):
                ours = replace(ours, place=record.place)
                slot.write_record(replace(ours, admin=record.admin))
                _create_branch(slot, branch, commit)
                return slot, lock, record.tree, record.kept
            slot = _start_over(slot, record, root)
            ours = replace(ours, place=str(slot.outer_tree or ""))
            slot.write_record(ours)
            slot.write_record(replace(ours, admin=_make(slot, branch, commit, (lock, alone))))
            return slot, lock, None, {}


def _may_renew(slot: Slot, record: Record, settings: Mapping[str, str], root: Path | None) -> bool:
    return (
        record.phase is WorkspacePhase.FREE
        and record.home == slot.pool.home
        and slot.tree.parent == (root or slot.directory)
        and worktree.is_present(slot)
        and worktree.admin_directory(slot, record) is not None
        and slot.index.exists()
        and record.settings == settings
        and worktree.is_recyclable(settings)
    )


def _create_branch(slot: Slot, branch: str, commit: Commit) -> None:
    try:
        git.update_refs(slot.pool.common, [Update(ref=branch, old=None, new=commit.id)])
    except GitFailed as error:
        raise _refusal(slot, branch, error) from error


def _make(slot: Slot, branch: str, commit: Commit, locks: Sequence[Lock]) -> str:
    try:
        return worktree.make(slot, branch, commit.id, [lock.fileno() for lock in locks])
    except GitFailed as error:
        raise _refusal(slot, branch, error) from error


def _refusal(slot: Slot, branch: str, error: GitFailed) -> WorkspaceError:
    """Reset the record and return the error of a branch that could not be made."""
    slot.write_record(_NEW)
    if git.find_ref(slot.pool.common, branch) is not None:
        return BranchTaken(f"The branch {branch} exists already; use another attempt's.")
    return WorkspaceError(f"The branch {branch} cannot be made. {error}")


def _choose(
    pool: WorkspacePool, branch: str, commit: Commit, terms: Terms, preferred: Path | None
) -> tuple[Slot, Lock]:
    """Choose and lock a workspace: that of the branch, the preferred, a free, a half-made, or a
    new workspace, in this order."""
    slots = pool.registered()
    for slot, record in slots:
        if record.branch == branch:
            return slot, _take_over(slot, branch, terms)
    idle = [(slot, record) for slot, record in slots if record.phase is not WorkspacePhase.READY]
    idle.sort(
        key=lambda pair: (
            pair[0].tree != preferred,
            pair[1].phase is not WorkspacePhase.FREE,
            pair[1].tree != commit.tree,
        )
    )
    for slot, record in idle:
        lock = try_lock(slot)
        if lock is None:
            continue
        if slot.find_record() == record:
            return slot, lock
        lock.close()
    return _add_slot(pool)


def _take_over(slot: Slot, branch: str, terms: Terms) -> Lock:
    """Continue where a prepare of the same branch died; first archive the work of its agent."""
    lock = try_lock(slot)
    if lock is None:
        raise BranchTaken(f"Another workspace is on {branch} and in use.")
    with handed_on(lock):
        record = slot.get_record()
        if record.branch == branch:  # and not freed just now
            _keep_abandoned(slot.pool.slot(slot.number, record), record, lock, terms)
    return lock


def _keep_abandoned(slot: Slot, record: Record, lock: Lock, terms: Terms) -> None:
    if git.find_ref(slot.pool.common, str(record.branch)) not in (None, record.base):
        raise BranchTaken(f"The branch {record.branch} holds work already; use another attempt's.")
    if record.phase is WorkspacePhase.READY:
        obstacle = archive.keep(Workspace.of(slot, record, lock, terms)).obstacle
        if obstacle:
            raise BranchTaken(f"The workspace of {record.branch} cannot be reused. {obstacle}")
        tear_down(slot, terms)
    slot.write_record(replace(record, phase=WorkspacePhase.MAKING))


def _add_slot(pool: WorkspacePool) -> tuple[Slot, Lock]:
    number = 1
    while True:
        slot = pool.slot(number)
        # A directory without a record is not weft's.
        if not os.path.lexists(slot.directory):
            lock = try_lock(slot)
            if lock is not None:
                _create(slot)
                return slot, lock
        number += 1


def _create(slot: Slot) -> None:
    """Make a workspace's directory at once with its record."""
    slot.pool.trash.mkdir(exist_ok=True)
    fresh = Path(tempfile.mkdtemp(dir=slot.pool.trash))
    write_record(fresh, _NEW)
    os.rename(fresh, slot.directory)


def _start_over(slot: Slot, record: Record, root: Path | None) -> Slot:
    """Remove the files of a workspace that is not ready, and its branch if that has no commit.

    Return the workspace with a working tree that does not exist yet, in `root`.
    """
    worktree.remove_files(slot, record)
    drop_unused_branch(slot, record)
    if slot.outer_tree is not None and slot.outer_tree.parent != root:
        place.drop_unused(slot.outer_tree.parent)
    if root is None:
        return slot.pool.slot(slot.number)
    # A user who deletes `.git/weft` leaves working trees without a record, maybe with work.
    endings = itertools.chain([""], (f"-{number}" for number in itertools.count(2)))
    trees = (root / f"{slot.inner_tree.name}{ending}" for ending in endings)
    return replace(slot, outer_tree=next(tree for tree in trees if not os.path.lexists(tree)))


def drop_unused_branch(slot: Slot, record: Record) -> None:
    """Delete the branch of a workspace if it is still at the base."""
    if record.branch is None or record.base is None:
        return
    if git.find_ref(slot.pool.common, record.branch) == record.base:
        archive.drop_branches(slot.pool.common, {record.branch: record.base})
