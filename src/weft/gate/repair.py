"""`weft land --repair`: a task that makes a run mergeable with a branch again.

weft merges the branch into trunk, conflicts marked in the files, and an agent completes that merge.
It passes the gate as any task does; the commit that lands on trunk has the branch as a parent, so
that the branch can move forward to it.
"""

from __future__ import annotations

import shlex
import time
from collections import Counter
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from weft import git, stages
from weft.errors import Refused
from weft.gate.branch_landing import is_landed_work
from weft.gate.check_run import find_telling_line
from weft.gate.conflicts import describe
from weft.gate.merge import place_attributes
from weft.gate.run_landing import LandContext, LandOutcome
from weft.gate.trunk import keep
from weft.git.object_store import MergeRefusal, merge_pair, open_object_store
from weft.model import BranchMerge, NewTask, Run, Task, TaskRequest
from weft.paths import quote
from weft.store import Store
from weft.store.runs import add_repair
from weft.store.tasks import get_task, list_run
from weft.workspace.names import merge_refs

_MOST_FILES: Final = 200
"""Files that a repair task claims by name; of more, it claims the whole repository."""


def add_repair_task(context: LandContext, run: Run, outcome: LandOutcome) -> Task:
    """Add a task to a run that completes its merge with a branch; return the task."""
    if outcome.conflicts and outcome.rewritten:
        raise Refused(
            f"{outcome.branch} was rewritten since run {run.id} began, and an agent could only "
            f"merge the old history into it again. Take the commits over by hand: "
            f"`git rebase --onto {outcome.branch} {run.base[:12]} weft/{run.id}` in a copy."
        )
    merge = git.outlast_gc(lambda: _merge(context.root, run, outcome))
    task = _build_task(context.store, run, outcome, merge, _files(context.root, run, outcome))
    number = add_repair(context.store, run.id, task, now=time.time())
    return get_task(context.store, number)


def _merge(root: Path, run: Run, outcome: LandOutcome) -> BranchMerge:
    """Commit the merge of trunk with the branch, and keep it from `git gc`."""
    trunk, tip = outcome.trunk, outcome.old
    tree = git.get_commit(root, outcome.new).tree
    if outcome.conflicts:
        with open_object_store(root) as objects:
            place_attributes(objects, git.get_commit(root, tip).tree)
            answer = merge_pair(objects, tip, trunk)
        if isinstance(answer, MergeRefusal):
            raise Refused(f"Run {run.id} cannot be repaired: {answer.text}")
        tree = answer.tree
    commit = git.commit_tree(
        root,
        tree,
        (trunk, tip),
        f"Merge {outcome.branch} into run {run.id}, to be completed\n",
        name="weft",
        email="weft@localhost",
        date=f"{int(time.time())} +0000",
    )
    keep(root, merge_refs(run.id), trunk, commit)
    return BranchMerge(commit=commit, trunk=trunk, tip=tip)


def _files(root: Path, run: Run, outcome: LandOutcome) -> tuple[str, ...]:
    """Return the patterns that a repair claims: files in conflict, or those that a side changed."""
    if outcome.conflicts:
        paths = {path for conflict in outcome.conflicts for path in conflict.paths}
    else:
        changes = [
            *git.compare_trees(root, run.base, outcome.trunk),
            *git.compare_trees(root, run.base, outcome.old),
        ]
        paths = {path for change in changes for path in change.paths}
    return ("**",) if len(paths) > _MOST_FILES or not paths else tuple(sorted(map(quote, paths)))


def _build_task(
    store: Store, run: Run, outcome: LandOutcome, merge: BranchMerge, files: tuple[str, ...]
) -> NewTask:
    tasks = list_run(store, run.id)
    model = _find_model(tasks, run)
    pipeline = tuple(stage for stage in model.request.stages if stage.name != "test")
    maker = stages.maker(pipeline)
    title = f"Merge {outcome.branch} into run {run.id}"
    return NewTask(
        name=_free_name(tasks),
        text=_text(outcome),
        request=TaskRequest(
            title=title,
            plan=model.request.plan,
            check=_marker_check(outcome),
            budget=model.request.budget,
            timeout=model.request.timeout,
            stages=pipeline,
            review=model.request.review,
            merge=merge,
            needs_labels=model.request.needs_labels,
        ),
        files=files,
        demand=model.demand if maker is None else maker.demand,
        agent=model.agent if maker is None else maker.agent,
        stage=model.stage if maker is None else maker.name,
        klass=model.klass,
        priority=model.priority,
    )


def _find_model(tasks: list[Task], run: Run) -> Task:
    """Return a landed task of the agent that did most of them: a repair is done like it."""
    done = [task for task in tasks if is_landed_work(task) and task.files]
    agents = Counter(_maker_name(task) for task in done)
    if not agents:
        raise Refused(f"Run {run.id} has no task of an agent that could repair it.")
    [(agent, _)] = agents.most_common(1)
    task = next(task for task in reversed(done) if _maker_name(task) == agent)
    return replace(task, agent=agent)


def _maker_name(task: Task) -> str | None:
    maker = stages.maker(task.request.stages)
    return task.agent if maker is None else maker.agent


def _free_name(tasks: list[Task]) -> str:
    names = {task.name for task in tasks}
    numbers = range(1, len(tasks) + 2)
    return next(f"repair-{number}" for number in numbers if f"repair-{number}" not in names)


def _marker_check(outcome: LandOutcome) -> str:
    """Return a check that no conflict marker is left; empty if there was no conflict."""
    if not outcome.conflicts:
        return ""
    paths = {path for conflict in outcome.conflicts for path in conflict.paths}
    words = " ".join(shlex.quote(path) for path in sorted(paths))
    return f"! git --literal-pathspecs grep -nE '^(<<<<<<<|>>>>>>>) ' -- {words}"


def _text(outcome: LandOutcome) -> str:
    branch = outcome.branch
    if not outcome.conflicts:
        return (
            f"This workspace holds the merge of {branch} with the work of this run. The merge is "
            f"clean, but its check fails: {find_telling_line(outcome.output)}\n\n"
            f"Change the files so that the check passes and both sides keep their meaning.\n\n"
            f"Output of the check:\n\n{outcome.output}\n"
        )
    return (
        f"This workspace holds the merge of {branch} with the work of this run. Both changed the "
        f"same lines, which are marked in the files: between <<<<<<< and ======= is the text "
        f"of {branch}, between ======= and >>>>>>> the text of this run. Edit the files so that "
        f"both sides keep their meaning, and remove every marker.\n\n"
        f"{describe(outcome.conflicts)}"
    )
