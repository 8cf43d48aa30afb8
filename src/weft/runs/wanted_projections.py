"""The projections that a run gets when it is submitted, and again when it is resumed."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from weft import plan
from weft.model import State, TargetState, Task
from weft.plan.beads import is_bead
from weft.plan.plan_records import Plan, ReaderOptions, Source
from weft.plan.writeback import match_tasks
from weft.project.project import Project
from weft.runs import plan_file
from weft.store import Store
from weft.store.projections import (
    ISSUE_TRACKER,
    NOTIFICATIONS,
    PLAN_MARKS,
    PLAN_STATE,
    TARGET_BRANCH,
    NewProjection,
    list_projections,
    request_projections,
)
from weft.store.runs import get_run
from weft.store.tasks import retry


def find_file_projections(
    path: Path, whole: Plan, format: Source | None = None
) -> tuple[NewProjection, ...]:
    """Return the projections for a plan file of this machine; none for a pipe.

    A plan.md beside a beads database is followed by its issues too, if tasks carry their ids.
    `format` is the format in which a person had the plan read, against its content.
    """
    if not path.is_file():
        return ()
    if whole.source is Source.BEADS:
        return (_of_file(ISSUE_TRACKER, path, format),)
    marks = _of_file(PLAN_MARKS, path, format)
    has_beads = (path.absolute().parent / ".beads").is_dir()
    if has_beads and any(task.named and is_bead(task.id) for task in whole.tasks):
        return marks, _of_file(ISSUE_TRACKER, path, format)
    return (marks,)


def request_state_file(path: Path, format: Source | None = None) -> NewProjection:
    """Return the projection for the file of `weft run --state`; it need not exist."""
    return _of_file(PLAN_STATE, path, format)


def _of_file(name: str, path: Path, format: Source | None) -> NewProjection:
    return NewProjection(
        name=name,
        host=socket.gethostname(),
        path=str(path.absolute()),
        memory=() if format is None else (str(format),),
    )


def find_format(store: Store, run: str) -> Source | None:
    """Return the format in which a person had the plan of a run read; None: found by content."""
    memory = {state.name: state.memory for state in list_projections(store, run)}
    return read_format(memory.get(PLAN_MARKS, ()))


def read_format(memory: Sequence[str]) -> Source | None:
    return Source(memory[0]) if memory else None


def list_first_projections(project: Project, files: Iterable[NewProjection]) -> list[NewProjection]:
    """List the projections of a new run; `files` are those of its plan."""
    notify = project.config.notify.command is not None
    return [
        *files,
        *([NewProjection(name=NOTIFICATIONS)] if notify else []),
    ]


def resume_projections(
    project: Project,
    store: Store,
    run: str,
    path: Path | None,
    *,
    writes: bool,
    state_file: Path | None = None,
) -> None:
    """Let the projections of a run go on, from a plan file of this machine if there is one.

    Without `writes` the plan file and its issues are left alone from now on. `state_file` is that
    of `--state`; a file that was named before is kept up to date too.
    """
    there = get_run(store, run)
    wanted: list[NewProjection] = []
    format = find_format(store, run)
    if path is not None and writes:
        options = ReaderOptions(format=format)
        whole = plan.read(path.name, plan_file.read(path), options).plan
        wanted += find_file_projections(path, whole, format)
    before = [Path(s.path) for s in list_projections(store, run) if s.name == PLAN_STATE]
    for file in [state_file] if state_file is not None else before:
        wanted += [request_state_file(file, format)]
    if there.target and there.target_state is not TargetState.MOVED:
        wanted += [NewProjection(name=TARGET_BRANCH)]
    notified = any(state.name == NOTIFICATIONS for state in list_projections(store, run))
    local = project.server is None
    if (
        local
        and project.config.notify.command is not None
        and not (notified and there.state == "ended")
    ):
        wanted += [NewProjection(name=NOTIFICATIONS)]
    request_projections(
        store,
        run,
        wanted,
        unwanted=() if writes else (PLAN_MARKS, ISSUE_TRACKER),
    )


def is_held(task: Task) -> bool:
    return task.state is State.BLOCKED and bool(task.request.held)


def release_marked(
    store: Store,
    path: Path,
    tasks: Sequence[Task],
    *,
    before: Plan | None = None,
    format: Source | None = None,
    confirm: Callable[[], None] = lambda: None,
) -> list[str]:
    """Reopen the held tasks whose mark in the file is [ ] by now; return their names.

    `before` is the plan as the run knows it, if the file may have other tasks by now. `format` is
    that of the file, if a person had it read against its content. `confirm` is called before each
    effect.
    """
    held = {task.name: task.id for task in tasks if is_held(task)}
    if not held:
        return []
    now = plan.read(path.name, plan_file.read(path), ReaderOptions(format=format)).plan
    marks = match_tasks(before or now, now, held)
    names = [name for name, task in marks.items() if task.status is State.WAITING]
    for name in names:
        confirm()
        retry(store, held[name], now=time.time())
    return names
