"""`weft land`: a branch of the user moves to the landed work of a run.

If the branch has not moved since the run began, it moves forward to trunk, whose tree passed. Else
the run is merged onto the branch without a working tree, and exactly the merged tree must pass the
run's check. The move is recorded first, then the reference moves by compare-and-swap, then the
checkout of the branch follows. After a crash anywhere, the next `weft land` completes the move.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path

from msgspec import Struct

from weft import git
from weft.candidate_records import BranchLanding
from weft.errors import InputError, Refused, WeftError
from weft.gate.branch_checkout import find_own_checkout, follow, require_clean
from weft.gate.conflicts import FileConflict
from weft.gate.merge import MergeCandidate, MergeStep, merge
from weft.gate.trunk import CrashPoint, LandingCommit, commit_chain, keep, swap, tree_of
from weft.git import RefMoved, Update
from weft.git.object_store import ObjectStore
from weft.model import Run, State, Task, TaskKind
from weft.store import Store
from weft.store.branch_landings import (
    complete_branch_landing,
    intend_branch_landing,
    list_branch_landings,
    list_landed_branches,
    withdraw_branch_landing,
)
from weft.store.gate import find_landed
from weft.store.runs import list_runs
from weft.store.tasks import list_run
from weft.workspace.names import landing_refs, merge_refs


class BranchMoved(Refused):
    """Another program moved the branch meanwhile."""


class MoveKind(StrEnum):
    NONE = "none"  # the branch has the work already
    FORWARD = "forward"  # to trunk itself
    MERGE = "merge"  # to a merge of the branch with trunk
    REPLAY = "replay"  # to copies of trunk's commits: the branch lacks the base of the run


class Move(Struct, frozen=True, kw_only=True):
    """A move of a branch that may be made once its tree has passed, unless it has conflicts."""

    kind: MoveKind
    run: str
    branch: str
    trunk: str
    old: str
    new: str
    tree: str
    rewritten: bool = False  # the branch no longer contains the commit that the run started from
    conflicts: tuple[FileConflict, ...] = ()  # the run does not merge with the branch

    @property
    def needs_check(self) -> bool:
        """True if the gate has not checked the tree of this move on the way to trunk."""
        return self.kind in (MoveKind.MERGE, MoveKind.REPLAY)


def choose_move(store: Store, root: Path, objects: ObjectStore, run: Run, branch: str) -> Move:
    """Choose how a branch takes in the landed work of a run; move no branch."""
    trunk = find_landed(store, run.id)
    if trunk is None:
        raise InputError(f"Run {run.id} has landed nothing, so there is nothing to take in.")
    old = git.find_ref(root, f"refs/heads/{branch}")
    if old is None:
        raise InputError(f"There is no branch {branch}; name another with --onto.")
    taken = _find_taken(store, root, run, branch, old)
    rewritten = not git.is_ancestor(root, run.base, old)

    def move(kind: MoveKind, new: str, conflicts: tuple[FileConflict, ...] = ()) -> Move:
        return Move(
            kind=kind,
            run=run.id,
            branch=branch,
            trunk=trunk,
            old=old,
            new=new,
            tree=tree_of(objects, new),
            rewritten=rewritten,
            conflicts=conflicts,
        )

    if taken == trunk or git.is_ancestor(root, trunk, old):
        return move(MoveKind.NONE, old)
    if not rewritten and git.is_ancestor(root, old, trunk):
        return move(MoveKind.FORWARD, trunk)
    pairs = _replayed(root, taken or run.base, trunk) if rewritten else [(trunk, run.base)]
    candidates = [MergeCandidate(commit=commit, base=base) for commit, base in pairs]
    steps = merge(objects, old, candidates, sides=(branch, f"run {run.id}"))
    for step in steps:
        if not step.clean:
            return move(MoveKind.NONE, old, step.conflicts)
    if steps[-1].tree == tree_of(objects, old):
        return move(MoveKind.NONE, old)
    if rewritten:
        return move(MoveKind.REPLAY, _copy_commits(objects, old, steps))
    new = _commit_merge(store, root, run, branch, steps[-1].tree, (old, trunk))
    return move(MoveKind.MERGE, new)


def _find_taken(store: Store, root: Path, run: Run, branch: str, tip: str) -> str | None:
    """Return the commit of trunk up to which a branch has the work of a run, as recorded."""
    for landing in reversed(list_branch_landings(store, run.id)):
        landed = landing.state == "landed" and landing.branch == branch
        if landed and git.is_ancestor(root, landing.new, tip):
            return landing.trunk
    return None


def _replayed(root: Path, since: str, trunk: str) -> list[tuple[str, str]]:
    """Return the commits of trunk after a commit, each with its parent."""
    commits = git.list_commits(root, since, trunk)
    return list(zip(commits, [since, *commits], strict=False))


def _copy_commits(objects: ObjectStore, tip: str, steps: Sequence[MergeStep]) -> str:
    commits = [LandingCommit(tree=step.tree, candidates=(step.candidate.commit,)) for step in steps]
    return commit_chain(objects, tip, commits, committed=int(time.time()))[-1]


def _commit_merge(
    store: Store, root: Path, run: Run, branch: str, tree: str, parents: Sequence[str]
) -> str:
    done = [task for task in list_run(store, run.id) if is_landed_work(task)]
    titles = "".join(f"* {task.request.title or task.name}\n" for task in done)
    return git.commit_tree(
        root,
        tree,
        parents,
        f"Merge run {run.id} into {branch}\n\n{titles}\nWeft-Run: {run.id}\n",
        name="weft",
        email="weft@localhost",
        date=f"{int(time.time())} +0000",
    )


def is_landed_work(task: Task) -> bool:
    return task.state is State.DONE and task.request.kind is TaskKind.WORK


def keep_move(root: Path, move: Move) -> None:
    """Make the commits of a move reachable and check that no object is missing."""
    keep(root, landing_refs(move.run), move.old, move.new)


def drop_kept(root: Path, run: str) -> None:
    """Delete the references that kept the commits of a run's moves and repairs."""
    kept = git.list_refs(root, landing_refs(run), merge_refs(run))
    with contextlib.suppress(RefMoved):  # another process deletes them too
        git.update_refs(root, [Update(ref=ref, old=at, new=None) for ref, at in kept.items()])


def record_taken(store: Store, move: Move) -> None:
    """Record that a branch has the work of a run already, unless that is recorded."""
    if move.branch in list_landed_branches(store, move.run):
        return
    landing = _intend(store, move, None)
    complete_branch_landing(store, landing.number, now=time.time())


def require_movable(store: Store, root: Path, move: Move) -> Path | None:
    """Return the checkout that follows a move; raise `Refused` if it may not move."""
    checkout = find_own_checkout(root, move.branch)
    if checkout is not None:
        plans = {Path(run.plan).resolve() for run in list_runs(store) if run.plan}
        require_clean(checkout, move.branch, move.old, move.new, marked=plans)
    return checkout


def carry_out(
    store: Store, root: Path, move: Move, *, holds: Sequence[int], at: CrashPoint
) -> BranchLanding:
    """Move a branch, and the user's checkout with it. The caller has checked the tree."""
    checkout = require_movable(store, root, move)
    at("inspected")
    landing = _intend(store, move, checkout)
    at("intended")
    roll_forward_branch(store, root, landing, holds=holds, at=at)
    return landing


def _intend(store: Store, move: Move, checkout: Path | None) -> BranchLanding:
    return intend_branch_landing(
        store,
        move.run,
        move.branch,
        trunk=move.trunk,
        old=move.old,
        new=move.new,
        tree=move.tree,
        checkout="" if checkout is None else str(checkout),
        now=time.time(),
    )


def roll_forward_branch(
    store: Store, root: Path, landing: BranchLanding, *, holds: Sequence[int], at: CrashPoint
) -> None:
    """Complete a recorded move from any of its stages.

    Raise `BranchMoved` after withdrawing it if another program moved the branch elsewhere.
    """
    if git.get_commit(root, landing.new).tree != landing.tree:
        raise WeftError(f"Commit {landing.new} does not hold the tree that was checked.")
    swap(
        root,
        f"refs/heads/{landing.branch}",
        landing.old,
        landing.new,
        drop=(landing_refs(landing.run), merge_refs(landing.run)),
        refuse=lambda where: _withdraw(store, root, landing, where),
        at=at,
        why=f"weft land: run {landing.run}",
    )
    at("moved")
    if landing.checkout and Path(landing.checkout).is_dir():
        checkout = Path(landing.checkout)
        follow(checkout, landing.branch, landing.old, landing.new, holds=holds, at=at)
    at("followed")
    complete_branch_landing(store, landing.number, now=time.time())
    at("completed")


def _withdraw(store: Store, root: Path, landing: BranchLanding, where: str | None) -> None:
    reason = (
        f"{landing.branch} is at {(where or 'nothing')[:12]} and no longer at {landing.old[:12]}: "
        f"another program moved it. Nothing of run {landing.run} went onto it."
    )
    withdraw_branch_landing(store, landing.number, reason, now=time.time())
    drop_kept(root, landing.run)
    raise BranchMoved(reason)
