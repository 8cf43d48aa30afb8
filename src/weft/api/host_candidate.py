"""The candidate of a worker host, examined at home before it is recorded.

The worker on a host keeps its agents in their scope; home does not rely on it. Work that may land
was pushed for its fence, stays in the files of its task, and has no link that leads out of the
repository and no file above the bound of workspaces.
"""

from __future__ import annotations

import os.path
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from weft import git, stages
from weft.attempt.outcome import claim_of, find_unnamed_settings
from weft.errors import Refused
from weft.git import FileChange, GitFailed, find_tip, is_ancestor
from weft.git.http_backend import CandidateName
from weft.git.trees import SYMLINK, find_file, list_sizes
from weft.model import STEPS, Attempt, Outcome, Task, TaskRequest
from weft.paths import matches
from weft.project.project import Project
from weft.store import Store
from weft.store.leases import get_lease
from weft.store.tasks import get_task, list_attempts
from weft.words import full_label

_ENDED_WELL: Final = frozenset({"success", *STEPS})


def require_sound(store: Store, project: Project, fence: int, outcome: Outcome) -> None:
    """Raise `Refused` unless the candidate of an outcome may be recorded."""
    lease = get_lease(store, fence)
    if outcome.candidate is None or lease.task is None or lease.attempt is None:
        return
    name = CandidateName(task=lease.task, attempt=lease.attempt, fence=fence)
    tip = find_tip(project.root, name.ref)
    task, attempts = get_task(store, lease.task), list_attempts(store, lease.task)
    if tip is None or tip.id != outcome.candidate:
        raise Refused(
            f"The candidate {outcome.candidate[:12]} of task {full_label(task)} was not pushed."
        )
    if outcome.kind not in _ENDED_WELL:
        return  # kept for the next attempt, whose own candidate is examined
    if any(stages.looks(made.stage) for made in attempts if made.number == lease.attempt):
        return _require_subject(task, attempts, outcome)
    changes = _list_changes(project.root, outcome.base or "", outcome.candidate)
    _refuse_outside(changes, (*task.files, *_list_hubs(task.request)))
    _refuse_links(project.root, outcome.candidate, changes)
    most = project.config.workspace.max_file_mb
    return _refuse_large(project.root, outcome.candidate, changes, most << 20)


def _require_subject(task: Task, attempts: Sequence[Attempt], outcome: Outcome) -> None:
    """Raise `Refused` if a review is about other work than the last candidate of its task.

    The task of a story has no candidate of its own; its review is not compared.
    """
    maker = stages.maker(task.request.stages)
    made = [old for old in attempts if maker and old.stage == maker.name and old.candidate]
    if made and (made[-1].candidate, made[-1].base) != (outcome.candidate, outcome.base):
        raise Refused(f"The review of task {full_label(task)} is about another candidate.")


def _list_changes(root: Path, base: str, candidate: str) -> list[FileChange]:
    try:
        if is_ancestor(root, base, candidate):
            return git.compare_trees(root, base, candidate)
    except GitFailed as error:
        raise Refused(f"The base of the candidate {candidate[:12]} is not here.") from error
    raise Refused(f"The candidate {candidate[:12]} is not made on the base that it names.")


def _list_hubs(request: TaskRequest) -> Iterable[str]:
    """List the files that a task may change without a claim; the gate merges them."""
    return (claim_of(file.path) for file in request.predicted if file.may_touch)


def _refuse_outside(changes: Iterable[FileChange], claims: tuple[str, ...]) -> None:
    paths = sorted({path for change in changes for path in change.paths})
    for path in find_unnamed_settings(paths, claims):
        raise Refused(f"The candidate changes {path!r}, a setting that its task does not name.")
    for path in paths:
        if not any(matches(claim, path) or claim == claim_of(path) for claim in claims):
            raise Refused(f"The candidate changes {path!r}, which its task has not claimed.")


def _refuse_links(root: Path, candidate: str, changes: Iterable[FileChange]) -> None:
    for change in changes:
        if change.new_mode != SYMLINK:
            continue
        target = find_file(root, candidate, change.path) or "/"
        written = os.path.normpath(os.path.join(os.path.dirname(change.path), target))
        if os.path.isabs(target) or written.split("/")[0] == "..":
            raise Refused(f"The link {change.path!r} leads out of the repository.")


def _refuse_large(root: Path, candidate: str, changes: Iterable[FileChange], most: int) -> None:
    files = [change.path for change in changes if stat.S_ISREG(change.new_mode)]
    for path, size in zip(files, list_sizes(root, candidate, files), strict=True):
        if size > most:
            raise Refused(f"{path!r} has more than {most >> 20} MB (`[workspace] max_file_mb`).")
