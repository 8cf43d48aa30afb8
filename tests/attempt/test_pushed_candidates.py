"""Candidates that hosts pushed are kept as branches or in the archive, then deleted."""

from __future__ import annotations

import time

from attempt.attempt_project import AttemptProject, project
from repositories import git
from weft.attempt.pushed_candidates import keep_pushed
from weft.git.http_backend import CANDIDATES, CandidateName

__all__ = ["project"]

LATER = 3600.0  # seconds: no request of a host is under way any more


def push(project: AttemptProject, task: int, commit: str) -> str:
    """Create the reference that a host would have pushed for the first attempt of a task."""
    [attempt] = project.attempts(task)
    ref = CandidateName(task=task, attempt=1, fence=attempt.fence).ref
    git(project.root, "update-ref", ref, commit)
    return ref


def refs(project: AttemptProject) -> dict[str, str]:
    lines = git(project.root, "for-each-ref", "--format=%(refname) %(objectname)", "refs/weft")
    return dict(line.split() for line in lines.splitlines())


def keep(project: AttemptProject, later: float = LATER) -> int:
    with project.site() as site:
        return keep_pushed(site, now=time.time() + later)


def test_a_recorded_candidate_becomes_the_branch_of_its_attempt(project: AttemptProject) -> None:
    task = project.submit("write a new")
    project.serve()
    [attempt] = project.attempts(task)
    [branch] = (ref for ref in refs(project) if ref.startswith("refs/weft/work/"))
    ref = push(project, task, str(attempt.candidate))
    git(project.root, "update-ref", "-d", branch)  # a host has it, home has not
    assert keep(project, later=0.0) == 0, "its host may repeat the request that recorded it"
    assert ref in refs(project)
    assert keep(project) == 1
    assert refs(project) == {branch: attempt.candidate}
    git(project.root, "update-ref", ref, str(attempt.candidate))  # as after a crash in between
    assert keep(project) == 1
    assert refs(project) == {branch: attempt.candidate}
    assert keep(project) == 0


def test_work_that_no_attempt_recorded_is_archived(project: AttemptProject) -> None:
    task = project.submit("write a new")
    project.serve()
    unrecorded = git(project.root, "commit-tree", "-m", "half", "HEAD^{tree}").strip()
    push(project, task, unrecorded)
    assert keep(project) == 1
    kept = {ref: commit for ref, commit in refs(project).items() if commit == unrecorded}
    [ref] = kept
    assert ref.startswith("refs/weft/archive/")


def test_a_candidate_of_an_open_or_unknown_lease_stays(project: AttemptProject) -> None:
    unknown = f"{CANDIDATES}1.1.77"
    git(project.root, "update-ref", unknown, "HEAD")
    go = project.root.parent / "go"
    task = project.submit(f"until test -e {go}", "write a new")
    kept: list[int] = []

    def look() -> bool:
        if project.attempts(task) and not kept:
            push(project, task, "HEAD")
            kept.append(keep(project))
            go.touch()
        return project.is_settled()

    project.serve(look)
    assert kept == [0]
    assert unknown in refs(project)
