"""The branch that a run moves to what it landed (`--into`): asked for, refused, moved.

Whoever first sees that the run has ended moves it: a process that serves the repository, or the
one that follows the run. Trying twice does no harm, so nobody has to wait for another.
"""

from __future__ import annotations

import time
from pathlib import Path

from weft import git
from weft.errors import InputError, Refused, WeftError
from weft.git import RefMoved, Update
from weft.model import MET, Run, TargetState
from weft.project.project import Project
from weft.store import Store
from weft.store.gate import read_gate
from weft.store.runs import get_run, set_target, settle_target
from weft.store.server_operations import hosted
from weft.store.tasks import list_run
from weft.workspace.names import BRANCHES, TRUNKS, trunk_ref
from weft.workspace.worktree import find_checkout

_HEADS = "refs/heads/"


def require_target(root: Path, branch: str, base: str) -> None:
    """Refuse a branch that could not be moved to what is to land on `base`."""
    ref = _HEADS + branch
    if not git.is_branch_name(root, branch) or branch.startswith("refs/"):
        raise InputError(f"--into {branch}: no branch can be called that.")
    if ref.startswith((TRUNKS, BRANCHES)):
        raise InputError(f"--into {branch}: branches that begin so are weft's own.")
    if place := find_checkout(root, ref):
        raise InputError(
            f"--into {branch}: it is checked out in {place}, where it must not move under "
            f"anybody's feet; name another branch, or none and merge the result there."
        )
    where = git.find_ref(root, ref)
    if where is None:
        _refuse_neighbours(root, branch)
    elif not git.is_ancestor(root, where, base):
        raise InputError(
            f"--into {branch}: it has commits that {base[:12]}, which the run starts from, does "
            f"not have, so it could not move forward; start from it with --base {branch}."
        )


def _refuse_neighbours(root: Path, branch: str) -> None:
    """git keeps branches as files: `a` and `a/b` cannot both be."""
    for ref in git.list_refs(root, _HEADS):
        other = ref.removeprefix(_HEADS)
        if branch.startswith(f"{other}/") or other.startswith(f"{branch}/"):
            raise InputError(f"--into {branch}: git cannot have it beside the branch {other}.")


@hosted("write")
def aim(project: Project, run: str, branch: str) -> None:
    """Let a run that is there already move this branch."""
    with project.open_store() as store:
        require_target(project.root, branch, get_run(store, run).base)
        set_target(store, run, branch)


@hosted("write")
def settle(project: Project, run: str) -> Run:
    """Move the branch of a run if it has ended and nobody has done so; the run afterwards."""
    with project.open_store() as store:
        return move(store, project.root, get_run(store, run))


def move(store: Store, root: Path, run: Run) -> Run:
    if run.state != "ended" or not run.target or run.target_state is TargetState.MOVED:
        return run
    state, text = _moved(store, root, run)
    settle_target(store, run.id, run.target, state, text, now=time.time())
    return get_run(store, run.id)


def _moved(store: Store, root: Path, run: Run) -> tuple[TargetState, str]:
    """What comes of it, as a sentence."""
    branch = run.target
    unmet = [task for task in list_run(store, run.id) if task.state not in MET]
    if unmet:
        more = f", and {len(unmet) - 1} more are not done" if len(unmet) > 1 else ""
        why = f"{unmet[0].name} is {unmet[0].state}{more}"
        return TargetState.LEFT, f"{branch} was left alone: {why}."
    landed = [one.new for one in read_gate(store, run.id).landings if one.state == "landed"]
    if not landed:
        return TargetState.LEFT, f"{branch} was left alone: nothing had to land."
    try:
        _fast_forward(root, branch, landed[-1], trunk_ref(run.id).removeprefix(_HEADS))
    except WeftError as refused:
        return TargetState.REFUSED, str(refused)
    return TargetState.MOVED, f"{branch} is at {landed[-1][:12]} now."


def _fast_forward(root: Path, branch: str, new: str, trunk: str) -> None:
    ref = _HEADS + branch
    where = git.find_ref(root, ref)
    if where == new:
        return
    if place := find_checkout(root, ref):
        raise Refused(
            f"{branch} was not moved: it is checked out in {place}; "
            f"`git -C {place} merge --ff-only {trunk}` does it."
        )
    if where is not None and not git.is_ancestor(root, where, new):
        raise Refused(
            f"{branch} was not moved: it has commits of its own since the run began; "
            f"`git switch {branch} && git merge {trunk}` takes what landed."
        )
    try:
        git.update_refs(root, [Update(ref=ref, old=where, new=new)], why="weft: run landed")
    except RefMoved as error:
        if git.find_ref(root, ref) != new:  # nobody else did it in this moment
            raise Refused(
                f"{branch} was not moved: {error} `git branch -f {branch} {trunk}` does it."
            ) from error
