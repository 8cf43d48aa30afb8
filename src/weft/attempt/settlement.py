"""The settlement of an attempt: from the end of an agent to the next state of its task.

Every effect on the store carries the fence; when the fence is refused, the lease is released. A
workspace that breaks git or the file system is a failure of its task, never of weft.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from weft import git, stages, workspace
from weft.admission.capacity import MOST
from weft.agents import review_answer
from weft.agents.classify import Failure
from weft.agents.comment_answers import read_answers
from weft.agents.proposal import Proposal
from weft.attempt import outcome, proposed_step, start_record
from weft.attempt.ended_attempt import (
    SUMMARY_LENGTH,
    Ended,
    find_failure,
    other_failure,
    read_answer,
    read_summary,
)
from weft.attempt.home_transfer import push_candidate
from weft.attempt.leaked_secrets import SecretFound
from weft.attempt.outcome import AttemptWork, NextState
from weft.attempt.proposed_step import StepDecision
from weft.attempt.work_commit import commit_nothing, commit_work, keep_work
from weft.bounds import TEXT
from weft.errors import (
    InputError,
    Refused,
    StaleFence,
    StoreError,
    WeftError,
    find_passing_fault,
)
from weft.formats import listed
from weft.git import gc_lock
from weft.git.trees import find_file
from weft.model import PLAN, ErrorClass, Outcome, Stage, State, TaskRequest
from weft.process import BrokenOff
from weft.store.attempt_end import finish
from weft.store.attempt_reports import count_failures
from weft.store.leases import extend, find_lost, release
from weft.store.tasks import get_task
from weft.teams.comparison_answer import read_preference
from weft.words import task_label
from weft.workspace import Changes

log = logging.getLogger(__name__)

PLAN_FILE: Final = "plan.md"
"""The file in which a planner may leave its plan, instead of its last message."""


class SettledFiles(Struct, frozen=True, kw_only=True):
    """The files of an attempt, as its outcome records them."""

    changed: tuple[str, ...]
    asked: tuple[str, ...] = ()  # claims for files outside those that it had


def settle(ended: Ended) -> State | None:
    """Settle an attempt; return its task's state, or None if the attempt was handed back."""
    gc_lock.guard(ended.site.common)
    try:
        failure = find_failure(ended)
        if failure is None:
            return _take_work(ended)
        if failure.kind is ErrorClass.STOPPED:
            _hand_back(ended, failure.reason)
            return None
        return _fail(ended, failure)
    except Refused as refused:
        if ended.site.transport is not None and not find_lost(ended.site.store, [ended.fence]):
            # Home refuses the work, not the fence: it would refuse the next attempt as well.
            block(ended, f"Home refused the work of {ended.site.host}: {refused}")
            return State.BLOCKED
        log.info("the attempt of task %s no longer counts: %s", ended.order.task, refused)
        _hand_back(ended, "refused")
        return None


def block(ended: Ended, reason: str) -> None:
    """Block the task with a reason; leave the workspace as it is."""
    try:
        _finish(ended, NextState(state=State.BLOCKED, kind=ErrorClass.OTHER, reason=reason), None)
    except Refused:
        _hand_back(ended, "refused")


def _take_work(ended: Ended) -> State:
    claims = ended.order.files
    try:
        changes = git.outlast_gc(lambda: workspace.changes(ended.workspace))
    except (StoreError, Refused, BrokenOff):
        raise
    except (WeftError, OSError) as error:
        if find_passing_fault(error):
            raise
        return _fail(ended, other_failure(f"What the agent left cannot be read: {error}"))
    if ended.order.stage == PLAN and not claims:
        return _take_plan(ended, changes)
    settings = outcome.find_unnamed_settings(changes.paths, claims) if claims else ()
    if settings:
        return _fail(ended, outcome.refuse_settings(settings))
    outside = workspace.out_of_scope(changes, claims)
    work = AttemptWork(
        paths=changes.paths,
        outside=outside,
        escapes=changes.escapes,
        conflicts=changes.conflicts,
        unusable=changes.unusable,
    )
    fault = outcome.find_fault(work, claims)
    step = proposed_step.find_step(ended.site, ended.order, ended.follower.answer)
    unchanged = fault is not None and fault.kind is ErrorClass.NO_CHANGE
    if fault is not None and not (unchanged and step is not None):
        if unchanged and _has_its_own_check(ended):
            return _finish(ended, NextState(state=State.GATING), commit_nothing(ended))
        return _fail(ended, fault)
    if step is not None and (unchanged or not claims):
        return _take_step(ended, step, changes.tree, None)
    if ended.order.subject is not None:
        return _take_verdict(ended, ended.order.subject)
    if _request(ended).compares is not None:
        return _take_preference(ended)
    if not claims:  # a task without claims, which changed no file
        return _finish(ended, NextState(state=State.DONE), None)
    edited = _edited_tests(ended, changes.tree)
    if edited:
        return _refuse_edited_tests(ended, edited)
    request = _request(ended)
    if outside and request.confined:
        return _fail(ended, outcome.refuse_outside(outside, claims))
    touched = SettledFiles(
        changed=changes.paths, asked=tuple(dict.fromkeys(map(outcome.claim_of, outside)))
    )
    if outside:
        held = _claim_more(ended, request, touched.asked)
        if held:
            return _ask_for_more(ended, outside, touched, held)
    try:
        commit = commit_work(ended, changes)
    except SecretFound as secret:
        leak = NextState(
            state=State.BLOCKED, kind=ErrorClass.OTHER, reason=str(secret), signature="secret"
        )
        return _finish(ended, leak, None)
    if commit is None:
        return _fail(ended, other_failure("What the agent left went away while it was taken up."))
    if step is not None:
        return _take_step(ended, step, changes.tree, commit)
    if ended.order.run is None:
        return _finish(ended, NextState(state=State.DONE), commit, touched=touched)
    following = stages.after(request.stages, ended.order.stage)
    if following is None or stages.looks(following.name):
        return _finish(ended, NextState(state=State.GATING), commit, touched=touched)
    return _finish(ended, NextState(state=State.READY), commit, then=following, touched=touched)


def _claim_more(ended: Ended, request: TaskRequest, asked: Sequence[str]) -> Mapping[str, int]:
    """Claim files that an attempt changed outside its claims; return the holders if it may not.

    Files that its task may touch are merged at the gate: they only must not be claimed by another
    task.
    """
    hubs = {outcome.claim_of(file.path) for file in request.predicted if file.may_touch}
    wanted = [claim for claim in asked if claim not in hubs]
    free = [claim for claim in asked if claim in hubs]
    return extend(ended.site.store, ended.fence, wanted, free=free, now=time.time())


def _take_plan(ended: Ended, changes: Changes) -> State:
    """Take the answer of a planner, or the plan.md that it wrote; no other file is kept."""
    answer = _written_plan(ended, changes) or ended.follower.answer
    clean = answer[:TEXT].encode(errors="replace").decode()
    return _finish(ended, NextState(state=State.DONE), None, result=clean)


def _written_plan(ended: Ended, changes: Changes) -> str | None:
    file = ended.workspace.path / PLAN_FILE
    if PLAN_FILE not in changes.paths or not file.is_file() or file.stat().st_size > TEXT:
        return None
    return find_file(ended.workspace.common, changes.tree, PLAN_FILE)


def _take_step(ended: Ended, step: Proposal | InputError, tree: str, commit: str | None) -> State:
    """End the attempt with the step that its agent proposed."""
    decision = proposed_step.decide(
        ended.site, ended.order, step, tree=tree, spent=ended.follower.spent
    )
    files = None
    if decision.files and extend(ended.site.store, ended.fence, decision.files, now=time.time()):
        files = tuple(dict.fromkeys((*ended.order.files, *decision.files)))
    return _finish(ended, decision.next, commit, files=files, then=decision.then, step=decision)


def _has_its_own_check(ended: Ended) -> bool:
    """Tell whether the task's own check can pass without a change."""
    return ended.order.run is not None and bool(_request(ended).check)


def _request(ended: Ended) -> TaskRequest:
    return get_task(ended.site.store, ended.order.task).request


def _edited_tests(ended: Ended, tree: str) -> tuple[str, ...]:
    """List the protected files of an earlier stage that this stage changed."""
    if not ended.order.tests:
        return ()
    start = git.get_commit(ended.site.root, ended.order.start)
    changed = git.compare_trees(ended.site.root, start.tree, tree)
    touched = {path for change in changed for path in change.paths}
    return tuple(path for path in ended.order.tests if path in touched)


def _refuse_edited_tests(ended: Ended, edited: tuple[str, ...]) -> State:
    reason = f"The agent changed {outcome.listed(edited)}, which the stage before it made."
    refused = NextState(
        state=State.READY, kind=ErrorClass.SCOPE, reason=reason, signature="scope: tests edited"
    )
    return _finish(ended, refused, keep_work(ended))


def _take_verdict(ended: Ended, subject: tuple[str, str]) -> State:
    """Move the task to its next stage, or back to its maker, by the verdict of a review."""
    stage = ended.order.stage or ""
    verdict = review_answer.read(read_answer(ended))
    pipeline = _request(ended).stages
    if verdict is None:
        reason = f"The {stage} ended without a verdict in the form that was asked for."
        unclear = NextState(
            state=State.READY, kind=ErrorClass.CRASH, reason=reason, signature=f"{stage}: none"
        )
        return _finish(ended, unclear, None, subject=subject)
    if not verdict.accepted:
        refused = NextState(state=State.READY, kind=stage, reason=str(verdict), signature=stage)
        back = stages.maker(pipeline)
        return _finish(ended, refused, None, subject=subject, then=back)
    following = stages.after(pipeline, stage)
    passed = NextState(
        state=State.GATING if following is None else State.READY,
        reason=ended.follower.said[-SUMMARY_LENGTH:],
    )
    return _finish(ended, passed, None, subject=subject, then=following)


def _take_preference(ended: Ended) -> State:
    """Record which of two candidates a judge prefers."""
    preference = read_preference(review_answer.find_last_object(read_answer(ended)))
    if preference is not None:
        return _finish(ended, NextState(state=State.DONE), None, result=preference.value)
    reason = "The judge ended without an answer in the form that was asked for."
    unclear = NextState(
        state=State.READY, kind=ErrorClass.CRASH, reason=reason, signature="comparison: none"
    )
    return _finish(ended, unclear, None)


def _ask_for_more(
    ended: Ended, outside: tuple[str, ...], touched: SettledFiles, held: Mapping[str, int]
) -> State:
    """Send the task back with larger claims: other tasks hold files that it changed."""
    tasks = [get_task(ended.site.store, number) for number in sorted(set(held.values()))]
    within = ended.order.run
    holders = listed([task_label(task.id, task.run, task.name, within=within) for task in tasks])
    story = get_task(ended.site.store, ended.order.task).story
    siblings = story is not None and all(task.story == story for task in tasks)
    change = "has changed" if all(task.state is State.GATING for task in tasks) else "is changing"
    cure = f"starts on the result of {holders}" if siblings else "claims it from the start"
    reason = (
        f"The agent changed {outcome.listed(outside)}, which {holders} {change} and this task "
        f"had not claimed; the next attempt {cure}."
    )
    next_ = NextState(state=State.READY, kind=ErrorClass.SCOPE, reason=reason)
    files = (*ended.order.files, *touched.asked)
    return _finish(ended, next_, keep_work(ended), files=files, touched=touched)


def _fail(ended: Ended, failure: Failure) -> State:
    now = time.time()
    next_ = outcome.after_failure(
        failure,
        earlier=count_failures(ended.site.store, ended.order.task, failure.kind),
        now=now,
        chance=random.random(),  # noqa: S311 - spreads retries, guards nothing
        tuning=ended.site.config.tuning,
    )
    if failure.kind is ErrorClass.SCOPE:
        next_ = replace(next_, state=State.BLOCKED)  # no larger claim would cure it
    limited = failure.kind is ErrorClass.RATE_LIMIT
    return _finish(
        ended, next_, keep_work(ended), penalises=ended.order.provider if limited else None
    )


def _finish(
    ended: Ended,
    next_: NextState,
    commit: str | None,
    *,
    files: tuple[str, ...] | None = None,
    penalises: str | None = None,
    subject: tuple[str, str] | None = None,
    then: Stage | None = None,
    result: str | None = None,
    touched: SettledFiles | None = None,
    step: StepDecision | None = None,
) -> State:
    touched = touched or SettledFiles(changed=_list_changed(ended, None if subject else commit))
    follower = ended.follower
    spent = follower.spent
    candidate = subject[0] if subject else commit
    push_candidate(ended.site, ended.order, ended.fence, candidate)
    start_record.save_use(
        ended.site.directory(ended.order.task, ended.order.attempt), follower.session
    )
    return finish(
        ended.site.store,
        ended.fence,
        Outcome(
            state=next_.state,
            kind=next_.kind,
            reason=next_.reason,
            until=next_.until,
            result=(("" if subject else read_summary(ended)) if result is None else result),
            signature=next_.signature,
            spent=_settled(ended),
            candidate=candidate,
            base=subject[1] if subject else ended.order.base,
            then=then,
            session=follower.seen.session or None,
            tokens=min(spent.tokens.total, MOST),
            micro_usd=min(spent.micro_usd or 0, MOST),
            sent_back=files is not None,
            files=files,
            penalises=penalises,
            stops_agent=ended.order.agent if next_.stops_agent else None,
            answers=() if subject else read_answers(follower.answer),
            asked=_list_asked(ended, touched),
            changed=None if subject else tuple(map(outcome.storable_path, touched.changed)),
            hop=step.hop if step else None,
            options=step.options if step else (),
            wake=step.wake if step else None,
        ),
        now=time.time(),
    )


def _list_asked(ended: Ended, touched: SettledFiles) -> tuple[str, ...]:
    """List the claims besides those at the start: asked for by the agent, or at its end."""
    claims = get_task(ended.site.store, ended.order.task).files
    meanwhile = [claim for claim in claims if claim not in ended.order.files]
    return tuple(dict.fromkeys((*meanwhile, *touched.asked)))


def _list_changed(ended: Ended, commit: str | None) -> tuple[str, ...]:
    """List the files in which a commit differs from the base of its workspace."""
    if commit is None:
        return ()
    place = ended.workspace
    changes = git.compare_trees(place.common, place.base_tree, commit)
    return tuple(dict.fromkeys(path for change in changes for path in change.paths))


def _hand_back(ended: Ended, reason: str) -> None:
    refusal = _send_home(ended) if ended.site.transport is not None else None
    spent = _settled(ended) or None
    try:
        release(ended.site.store, ended.fence, now=time.time(), reason=reason, spent=spent)
    except StaleFence:
        log.warning(
            "the store has no lease %s of task %s any more, as after a restore from a backup; the "
            "work on %s stays on this host",
            ended.fence,
            ended.order.task,
            ended.order.branch,
        )
        return
    if refusal is not None:
        log.warning("the work on %s stays on this host: %s", ended.order.branch, refusal)


def _send_home(ended: Ended) -> Refused | BrokenOff | None:
    """Push unfinished work, which home archives: this host may be gone tomorrow.

    Return the reason for which it was not pushed: it is archived here.
    """
    # Cancelling broke off git in the workspace; this git command must still run.
    fresh = replace(ended, workspace=replace(ended.workspace, terms=ended.site.terms()))
    try:
        push_candidate(ended.site, ended.order, ended.fence, keep_work(fresh))
    except (Refused, BrokenOff) as error:
        return error
    return None


def _settled(ended: Ended) -> dict[str, int]:
    """Return the spent amount; empty if the program reports none: then the reservation counts."""
    spent = ended.follower.spent.micro_usd
    if ended.order.usd is None or spent is None:
        return {}
    return {ended.order.usd: min(spent, MOST)}
