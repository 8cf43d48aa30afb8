"""`weft recordings`: attempts as files, and a run that plays them again."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from weft import git
from weft.agents.recording import Recording
from weft.attempt.recordings import (
    get_recordings,
    list_after,
    load_recordings,
    make_recording,
    save_recording,
)
from weft.config import RunSettings
from weft.errors import InputError, Refused
from weft.model import BELOW_TEAM, Attempt, Demand, NewRun, NewTask, Run, Stage, Task, TaskKind
from weft.project.project import Project
from weft.project.site import home
from weft.runs.attempt_output import make_redactor
from weft.runs.preparation import new_run_id
from weft.runs.task_names import get_named
from weft.store import Store
from weft.store.event_log import history, list_run_events
from weft.store.limit_table import identity
from weft.store.runs import get_limits_at_submission, get_run, get_settings, submit_run
from weft.store.tasks import list_attempts, list_run, list_run_edges
from weft.workspace.names import trunk_ref


class RecordedAttempts(Struct, frozen=True, kw_only=True):
    directory: str
    files: tuple[str, ...]
    left_out: tuple[str, ...]  # attempts that cannot be recorded, with the reasons


def record(project: Project, store: Store, name: str, directory: Path) -> RecordedAttempts:
    """Record the ended attempts of a task, or of all tasks of a run, as files of a directory."""
    if project.server is not None:
        raise InputError(
            "The output of agents is on the server's machine: run `weft recordings save` there, in "
            "the repository."
        )
    named = get_named(store, name)
    run = named.id if isinstance(named, Run) else named.run
    tasks = list_run(store, named.id) if isinstance(named, Run) else [named]
    after = _list_after(store, run) if run is not None else {}
    files, left_out = [], []
    for task in tasks:
        for attempt in list_attempts(store, task.id):
            if attempt.ended is None or attempt.agent is None:
                continue
            try:
                order = after.get((task.id, attempt.number), ())
                made = _make(project, store, attempt, order)
                files.append(save_recording(directory, made).name)
            except Refused as refused:
                left_out.append(str(refused))
    if not files:
        reasons = " ".join(left_out) or "it has no attempt that has ended."
        raise Refused(f"Nothing of {name} can be recorded: {reasons}")
    return RecordedAttempts(directory=str(directory), files=tuple(files), left_out=tuple(left_out))


def _list_after(store: Store, run: str) -> Mapping[tuple[int, int], tuple[str, ...]]:
    names = {task.id: task.name for task in list_run(store, run)}
    return list_after(list_run_events(store, run), names)


def _make(project: Project, store: Store, attempt: Attempt, after: tuple[str, ...]) -> Recording:
    common = git.common_directory(project.root)
    directory = home(common, identity(store)) / f"{attempt.task}.{attempt.number}"
    hide = make_redactor(project, attempt.agent or "")
    events = history(store, attempt.task)
    return make_recording(project.root, directory, attempt, events, hide, after=after)


class Replay(Struct, frozen=True, kw_only=True):
    run: str  # the new run
    original: str
    recordings: str  # the directory


def replay(
    project: Project, store: Store, name: str, *, directory: Path | None, fast: bool
) -> Replay:
    """Submit a run again, on the same base, with agents that play its recordings."""
    if project.server is not None:
        raise InputError(
            "Recordings are played on the server's machine: run `weft recordings play` there, in "
            "the repository."
        )
    named = get_named(store, name)
    if not isinstance(named, Run):
        raise InputError(f"{name} is a task; `weft recordings play` plays a whole run.")
    if directory is None:
        directory = get_recordings(git.common_directory(project.root), named.id)
        record(project, store, named.id, directory)
    recordings = load_recordings(directory)
    if not recordings:
        raise InputError(f"There are no recordings in {directory}.")
    original = get_run(store, named.id)
    run = new_run_id(f"replay-{original.id.rpartition('-')[0] or original.id}")
    settings = replace(get_settings(store, original.id), recorded=str(directory), fast=fast)
    _submit(store, original, run, settings, recordings)
    return Replay(run=run, original=original.id, recordings=str(directory))


def _submit(
    store: Store, original: Run, run: str, settings: RunSettings, recordings: Sequence[Recording]
) -> None:
    # Tasks that the run itself added, of merges and teams, are added again.
    tasks = [
        task
        for task in list_run(store, original.id)
        if task.request.merge is None and task.request.kind not in BELOW_TEAM
    ]
    names = {task.id: task.name for task in tasks}
    needs: dict[int, list[str]] = {task.id: [] for task in tasks}
    for task, need in list_run_edges(store, original.id):
        if task in needs and need in names:
            needs[task].append(names[need])
    files = {each.task: each.files for each in reversed(recordings)}  # of the first attempts
    made = [_copy(task, run, names, needs[task.id], files.get(task.name)) for task in tasks]
    limits = {
        resource.rpartition("/")[2]: amount
        for resource, amount in get_limits_at_submission(store, original.id).items()
    }
    new = NewRun(
        id=run,
        repo=original.repo,
        tenant=original.tenant,
        plan=f"weft recordings play {original.id}",
        base=original.base,
        limits=limits,
        alternates=original.alternates,
    )
    submit_run(store, new, made, settings=settings, now=time.time())


def _copy(
    task: Task,
    run: str,
    names: Mapping[int, str],
    needs: Sequence[str],
    files: tuple[str, ...] | None,
) -> NewTask:
    """Return a task as it was submitted: with the claims of its first attempt, at its first stage.

    A claim that grew during the run grows again.
    """
    old = task.run or ""
    stages = tuple(
        replace(stage, demand=_rename(stage.demand, old, run)) for stage in task.request.stages
    )
    first = stages[0] if stages and task.request.kind is TaskKind.WORK else None
    stage = first or Stage(name=task.stage or "", agent=task.agent or "", demand={})
    demand = first.demand if first else _rename(task.demand, old, run)
    return NewTask(
        name=task.name,
        text=task.text,
        request=replace(task.request, stages=stages),
        attached=task.attached,
        files=task.files if files is None else files,
        demand={} if task.agent is None else demand,
        needs=tuple(needs),
        klass=task.klass,
        priority=task.priority,
        agent=None if task.agent is None else stage.agent,
        stage=None if task.agent is None else stage.name or None,
        path_seconds=task.path_seconds,
        gang=task.gang.partition("/")[2] if task.gang else None,
        story=names.get(task.story) if task.story is not None else None,
    )


def _rename(demand: Demand, old: str, new: str) -> dict[str, int]:
    """Return a demand with the limits of another run."""
    renamed = {}
    for resource, amount in demand.items():
        kind, colon, rest = resource.partition(":")
        if kind in ("run", "stage") and rest.startswith(f"{old}/"):
            resource = f"{kind}{colon}{new}{rest.removeprefix(old)}"
        renamed[resource] = amount
    return renamed


def compare_results(project: Project, replayed: Replay) -> tuple[str | None, str | None]:
    """Return the trees of the original run and of its replay; None where no work has landed."""
    runs = (replayed.original, replayed.run)
    tips = [git.find_tip(project.root, trunk_ref(run)) for run in runs]
    return (tips[0].tree if tips[0] else None, tips[1].tree if tips[1] else None)
