"""The branch of `--into`: moved forward to the landed commit when its run has ended."""

from __future__ import annotations

import time
from pathlib import Path

from weft import git
from weft.errors import Refused, WeftError
from weft.git import RefMoved, Update
from weft.model import BELOW_TEAM, MET, Run, TargetState
from weft.runs.progress import RunProgress
from weft.store import Store
from weft.store.gate import read_gate
from weft.store.runs import get_run, settle_target
from weft.store.tasks import list_run
from weft.words import task_state
from weft.worker.projections import News
from weft.workspace.names import trunk_ref
from weft.workspace.worktree import find_checkout

_HEADS = "refs/heads/"


class TargetBranch:
    """The branch of a run. It moves by compare-and-swap, so a second try has no effect."""

    def __init__(self, store: Store, root: Path, run: str) -> None:
        self._store = store
        self._root = root
        self._run = run

    def wants(self, progress: RunProgress, changed: bool) -> bool:
        return progress.ended

    def apply(self, news: News) -> tuple[()]:
        run = get_run(self._store, self._run)
        if run.state == "ended" and run.target and run.target_state is not TargetState.MOVED:
            news.confirm()
            state, text = _move(self._store, self._root, run)
            settle_target(self._store, run.id, run.target, state, text, now=time.time())
        return ()


def _move(store: Store, root: Path, run: Run) -> tuple[TargetState, str]:
    """Move the branch if all tasks landed; return the result and a sentence about it."""
    branch = run.target
    asked = [task for task in list_run(store, run.id) if task.request.kind not in BELOW_TEAM]
    unmet = [task for task in asked if task.state not in MET]
    if unmet:
        more = f", and {len(unmet) - 1} more are not done" if len(unmet) > 1 else ""
        why = f"{unmet[0].name} is {task_state(unmet[0])}{more}"
        return TargetState.LEFT, f"{branch} was left alone: {why}."
    landings = read_gate(store, run.id).landings
    landed = [landing.new for landing in landings if landing.state == "landed"]
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
        if git.find_ref(root, ref) != new:
            raise Refused(
                f"{branch} was not moved: {error} `git branch -f {branch} {trunk}` does it."
            ) from error
