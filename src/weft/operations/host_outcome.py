"""The end of an attempt on a worker host, examined at home before it is recorded.

The worker on a host keeps its agents in their scope; home does not rely on it. Work that may land
was pushed for its fence, stays in the files of its task, and has no link that leads out of the
repository and no file above the bound of workspaces. Home derives the effects on other tasks: the
next stage, the next agent, the provider that slows down. A host stops no agent.
"""

from __future__ import annotations

import os.path
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from weft import bounds, git, stages
from weft.admission.capacity import MOST
from weft.agents.proposal import HandOverStep
from weft.agents.usage import Spent
from weft.attempt.outcome import claim_of, find_unnamed_settings
from weft.attempt.proposed_step import find_stop, spent_by
from weft.errors import Refused
from weft.git import FileChange, GitFailed, find_tip, is_ancestor
from weft.git.http_backend import CandidateName
from weft.git.trees import SYMLINK, find_file, list_sizes
from weft.model import (
    STEPS,
    ArgValue,
    Attempt,
    ErrorClass,
    Outcome,
    Stage,
    State,
    Task,
    TaskRequest,
)
from weft.operations.member_work import find_agent_of, find_problem, refuse_more_files
from weft.paths import matches
from weft.project.agent_demand import demand_with_agent
from weft.project.project import Project
from weft.store import Store
from weft.store.attempt_end import list_hops
from weft.store.leases import get_lease
from weft.store.tasks import get_task, list_attempts
from weft.words import full_label

_LATEST: Final = 9 * 86_400.0  # seconds; weekly limits of providers are the longest waits
_PROVIDER: Final = "provider:"
_ENDED_WELL: Final = frozenset({"success", *STEPS})


def derive_outcome(
    store: Store, project: Project, fence: int, outcome: Outcome, *, now: float
) -> Outcome:
    """Return the outcome that home records for the attempt of a host; raise `Refused` if the host
    reports work or a step that its task does not allow."""
    lease = get_lease(store, fence)
    if lease.task is None or lease.attempt is None:
        return outcome
    task, attempts = get_task(store, lease.task), list_attempts(store, lease.task)
    if outcome.candidate is not None:
        name = CandidateName(task=lease.task, attempt=lease.attempt, fence=fence)
        stage = next(made.stage for made in attempts if made.number == lease.attempt)
        _require_sound(project, task, attempts, outcome, name, looks=stages.looks(stage))
    if outcome.state is State.DONE and task.run is not None and task.files:
        raise Refused(f"Task {full_label(task)} changes files, so its work goes to the gate.")
    _refuse_odd_use(task, outcome)
    refuse_more_files(task, [*(outcome.files or ()), *outcome.asked])
    stopped = outcome.stops_agent is not None and outcome.state is State.READY
    return replace(
        outcome,
        state=State.BLOCKED if stopped else outcome.state,
        stops_agent=None,
        penalises=_find_provider(task) if outcome.kind == ErrorClass.RATE_LIMIT else None,
        then=_derive_stage(store, project, task, outcome),
        until=None if outcome.until is None else min(outcome.until, now + _LATEST),
        reason=outcome.reason[: bounds.MESSAGE],
        result=outcome.result[: bounds.TEXT],
    )


def _refuse_odd_use(task: Task, outcome: Outcome) -> None:
    if not (0 <= outcome.tokens <= MOST and 0 <= outcome.micro_usd <= MOST):
        raise Refused("Tokens and dollars are counted from 0 up.")
    for resource in outcome.spent.keys() - task.demand.keys():
        raise Refused(f"Task {full_label(task)} does not use {resource}, so it spent nothing.")


def _find_provider(task: Task) -> str | None:
    """Return the provider of the task's agent, as the demand of the task names it."""
    named = (name for name in task.demand if name.startswith(_PROVIDER))
    return next((name.removeprefix(_PROVIDER) for name in named), None)


def _derive_stage(store: Store, project: Project, task: Task, outcome: Outcome) -> Stage | None:
    """Return the next stage of the task: one of its own, or its stage with the next agent."""
    if outcome.hop is None:
        if outcome.then is not None and outcome.then not in task.request.stages:
            raise Refused(f"Task {full_label(task)} has no stage {outcome.then.name!r}.")
        return outcome.then
    step = HandOverStep(
        agent=outcome.hop.agent,
        note=outcome.hop.note,
        args={name: _as_list(value) for name, value in outcome.hop.args.items()},
    )
    receiver = find_agent_of(store, project, task, step.agent)
    problem = find_problem(store, project, task, step)
    if problem or receiver is None:
        raise Refused(problem)
    hops = list_hops(store, task.id)
    first = find_agent_of(store, project, task, hops[0].giver if hops else task.agent or "")
    used = spent_by(list_attempts(store, task.id), hops, Spent())
    stop = find_stop([hop for hop in hops if hop.counts], outcome.hop, first, used, task)
    if stop:
        raise Refused(stop)
    demand = demand_with_agent(receiver, task, task.demand, task.stage)
    return Stage(name=task.stage or "", agent=receiver.name, demand=demand)


def _as_list(value: ArgValue) -> str | float | bool | list[str]:
    return list(value) if isinstance(value, tuple) else value


def _require_sound(
    project: Project,
    task: Task,
    attempts: Sequence[Attempt],
    outcome: Outcome,
    name: CandidateName,
    *,
    looks: bool,
) -> None:
    """Raise `Refused` unless the candidate of an outcome may be recorded."""
    candidate = outcome.candidate or ""
    tip = find_tip(project.root, name.ref)
    if tip is None or tip.id != candidate:
        raise Refused(f"The candidate {candidate[:12]} of task {full_label(task)} was not pushed.")
    if outcome.kind not in _ENDED_WELL:
        return  # kept for the next attempt, whose own candidate is examined
    if looks:
        return _require_subject(task, attempts, outcome)
    changes = _list_changes(project.root, outcome.base or "", candidate)
    _refuse_outside(changes, (*task.files, *_list_hubs(task.request)))
    _refuse_links(project.root, candidate, changes)
    most = project.config.workspace.max_file_mb
    return _refuse_large(project.root, candidate, changes, most << 20)


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
