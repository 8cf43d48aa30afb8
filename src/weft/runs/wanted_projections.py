"""The projections that a run gets when it is submitted, and again when it is resumed."""

from __future__ import annotations

import socket
from pathlib import Path

from weft import plan
from weft.model import TargetState
from weft.plan.plan_records import Source
from weft.project.project import Project
from weft.runs import plan_file
from weft.store import Store
from weft.store.projections import (
    ISSUE_TRACKER,
    NOTIFICATIONS,
    PLAN_MARKS,
    TARGET_BRANCH,
    NewProjection,
    list_projections,
    request_projections,
)
from weft.store.runs import get_run


def find_file_projection(path: Path, source: Source) -> NewProjection | None:
    """Return the projection for a plan file of this machine; None for a pipe."""
    if not path.is_file():
        return None
    name = ISSUE_TRACKER if source is Source.BEADS else PLAN_MARKS
    return NewProjection(name=name, host=socket.gethostname(), path=str(path.absolute()))


def list_first_projections(
    project: Project, plan_file: NewProjection | None
) -> list[NewProjection]:
    """List the projections of a new run."""
    notify = project.config.notify.command is not None
    return [
        *([] if plan_file is None else [plan_file]),
        *([NewProjection(name=NOTIFICATIONS)] if notify else []),
    ]


def resume_projections(
    project: Project, store: Store, run: str, path: Path | None, *, writes: bool
) -> None:
    """Let the projections of a run go on, from a plan file of this machine if there is one.

    Without `writes` the plan file and its issues are left alone from now on.
    """
    there = get_run(store, run)
    wanted = []
    if path is not None and writes:
        source = plan.read(path.name, plan_file.read(path)).plan.source
        wanted += [find_file_projection(path, source)]
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
        [projection for projection in wanted if projection is not None],
        unwanted=() if writes else (PLAN_MARKS, ISSUE_TRACKER),
    )
