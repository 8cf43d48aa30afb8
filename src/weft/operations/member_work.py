"""The work of a member on a task: claim, answer an offer, report, end, hand back.

Every call after a claim carries its fence, and changes no row unless that fence is current.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import to_builtins

from weft import paths
from weft.admission.capacity import MOST, is_consumable
from weft.admission.retries import after_failure
from weft.agents import proposal
from weft.agents.agent import Agent
from weft.agents.proposal import HandOverStep, Proposal, SleepStep
from weft.attempt.outcome import find_unnamed_settings
from weft.attempt.proposed_step import count_refused
from weft.errors import AlreadyEnded, AtCapacity, Forbidden, InputError, Refused
from weft.model import SWARM, TERMINAL, Outcome, State, Task, Worker
from weft.operations.identity import (
    Identity,
    describe_claimed,
    get_acting,
    get_own_lease,
    get_visible_task,
)
from weft.operations.inbox import ack_messages, confirmed_messages
from weft.operations.member_records import Claimed, Heard, TaskResult
from weft.project.project import Project
from weft.project.site import parse_agent, read_agent
from weft.store import Store, attempt_end, attempt_reports, leases, members, tasks
from weft.store.admission import admit_task
from weft.store.attempt_reports import propose_step, refuse_step
from weft.store.database import storable
from weft.store.event_log import history
from weft.store.members import give_signs, hand_back, list_held
from weft.store.messages import confirm_to_task, list_to_task
from weft.store.probe import probe
from weft.store.runs import get_settings
from weft.store.store import writes
from weft.store.tasks import get_task
from weft.words import full_label


@writes
def claim(store: Store, who: Identity, member: str, task: int, *, now: float) -> Claimed:
    """Claim a task now, or raise with the reason. A repeated claim of a held task gets the same
    answer."""
    worker = get_acting(store, who, member, now=now)
    about = _get_for(store, who, task)
    for held in list_held(store, member).get(member, []):
        if held.task == task and held.current:
            return describe_claimed(store, held)
    _refuse_full(worker)
    if not admit_task(store, member, task, now=now):
        raise _why_not(store, about, now=now)
    return _taken(store, member, task, now=now)


def accept(store: Store, who: Identity, member: str, task: int, *, now: float) -> Claimed | Refused:
    """Accept an offer. Without room for it the offer stands. If the task cannot start for another
    reason, it goes back to the pool; return the refusal."""
    answer = _accept(store, who, member, task, now=now)
    if isinstance(answer, str):
        return Refused(f"Task {task} cannot start now: {answer}; it is in the pool again.")
    return answer


@writes
def _accept(store: Store, who: Identity, member: str, task: int, *, now: float) -> Claimed | str:
    """Return the claimed task, or the reason why it cannot start."""
    worker = get_acting(store, who, member, now=now)
    about = _get_for(store, who, task)
    if about.state is State.OFFERED and about.offered_to == member:
        _refuse_full(worker)
    if not members.accept(store, task, member, now=now):
        return _held_up(store, tasks.get_task(store, task), now=now)
    return _taken(store, member, task, now=now)


@writes
def reject(
    store: Store, who: Identity, member: str, task: int, *, reason: str = "", now: float
) -> None:
    """Reject an offer; the task goes back to the pool."""
    get_acting(store, who, member, now=now)
    _get_for(store, who, task)
    members.reject(store, task, member, now=now, reason=reason)
    give_signs(store, [member], now=now)


def _get_for(store: Store, who: Identity, task: int) -> Task:
    """Return a task that a member may take."""
    about = get_visible_task(store, who, task)
    if not about.repo.startswith(SWARM):
        raise Refused(f"Task {task} is done in a workspace, by weft's own agents.")
    return about


def _refuse_full(worker: Worker) -> None:
    room = worker.capacity
    if not room.available:
        raise AtCapacity(
            f"You have no capacity ({room.current}/{room.max} tasks). Finish or release one first."
        )


def _why_not(store: Store, task: Task, *, now: float) -> Refused:
    if task.state in TERMINAL:
        return AlreadyEnded(f"Task {task.id} is {task.state} already.")
    held_up = _held_up(store, task, now=now)
    return Refused(f"Task {task.id} cannot be claimed now: {held_up}.")


def _held_up(store: Store, task: Task, *, now: float) -> str:
    waits = "; ".join(wait.text for wait in probe(store, task.id, now=now))
    return waits or ("others go first" if task.state is State.READY else f"it is {task.state}")


def _taken(store: Store, member: str, task: int, *, now: float) -> Claimed:
    give_signs(store, [member], now=now)
    mine = list_held(store, member)[member]
    [held] = [held for held in mine if held.task == task and held.current]
    return describe_claimed(store, held)


@writes
def release(
    store: Store,
    who: Identity,
    fence: int,
    *,
    task: int | None = None,
    reason: str = "",
    now: float,
) -> bool:
    """Give a task back to the queue without counting a failure; return False if that was done
    before."""
    _refuse_own_agent(who, fence)
    get_own_lease(store, who, fence, task=task, now=now)
    return hand_back(store, fence, reason=reason, now=now)


def _refuse_own_agent(who: Identity, fence: int) -> None:
    """Refuse the agent that weft started: its process and its work tell how it ends."""
    if who.fence == fence:
        raise Forbidden("weft started this attempt: exit instead of calling `finish`.")


@writes
def progress(
    store: Store,
    who: Identity,
    fence: int,
    *,
    task: int | None = None,
    text: str = "",
    data: Mapping[str, Any] | None = None,
    ack: str | None = None,
    now: float,
) -> Heard:
    """Record progress, which is also a sign of life; return the messages to the task."""
    lease = get_own_lease(store, who, fence, task=task, now=now)
    assert lease.task is not None
    upto = confirmed_messages(ack)
    report: dict[str, Any] = {"attempt": lease.attempt, "offset": 0, "events": []}
    if text:
        report["events"].append({"type": "text", "text": text})
    if data:
        report["said"] = data
    attempt_reports.report(store, fence, report, now=now)
    if who.fence != fence and lease.worker is not None:  # weft itself speaks for its own agents
        give_signs(store, [lease.worker], now=now)
    if upto is not None:
        confirm_to_task(store, lease.task, upto, now=now)
    messages = tuple(list_to_task(store, lease.task))
    return Heard(
        task=lease.task,
        deadline=now + store.tuning.lease,
        messages=messages,
        ack=ack_messages(messages),
    )


def finish(
    store: Store,
    who: Identity,
    fence: int,
    result: TaskResult,
    *,
    task: int | None = None,
    now: float,
) -> State | AlreadyEnded:
    """End an attempt. The first result stands: the same result again gets the same answer, a
    different result is refused and gets the first.

    If the task was cancelled meanwhile, its slot is still freed, and the answer says so.
    """
    state, ended = _finish(store, who, fence, result, task=task, now=now)
    if ended:
        return AlreadyEnded(f"The task is {state} already; this result is not needed any more.")
    return state


@writes
def _finish(
    store: Store,
    who: Identity,
    fence: int,
    result: TaskResult,
    *,
    task: int | None = None,
    now: float,
) -> tuple[State, bool]:
    """Return the task's state, and whether it had ended before."""
    _refuse_own_agent(who, fence)
    lease = get_own_lease(store, who, fence, task=task, now=now)
    assert lease.task is not None
    _refuse_odd_spending(result)
    about = tasks.get_task(store, lease.task)
    if lease.released is None and about.state in TERMINAL:
        leases.release(store, fence, now=now, reason=str(about.state), spent=result.spent)
        return about.state, True
    earlier = attempt_reports.count_failures(store, about.id, result.kind)
    outcome = _outcome(store, result, earlier, now=now)
    if lease.released is not None:
        _refuse_another_result(store, fence, outcome)
    state = attempt_end.finish(store, fence, outcome, now=now)
    if lease.worker is not None:
        give_signs(store, [lease.worker], now=now)
    return state, False


def _refuse_another_result(store: Store, fence: int, outcome: Outcome) -> None:
    """Refuse a result that differs from the first. Several callers may each believe that theirs
    was stored."""
    first = attempt_reports.find_answer(store, fence)
    answer = storable(store.redactor.redact_text(outcome.result or outcome.reason))
    if first is None or first == (outcome.kind, answer):
        return
    kind, text = first
    how = "completed" if kind == "success" else "failed"
    raise AlreadyEnded(f"This attempt has {how} already, and the first answer counts: {text}")


def _refuse_odd_spending(result: TaskResult) -> None:
    for resource, amount in result.spent.items():
        if not is_consumable(resource) or not 0 <= amount <= MOST:
            raise InputError(f"{amount} of {resource} cannot have been spent.")
    if not (0 <= result.tokens <= MOST and 0 <= result.micro_usd <= MOST):
        raise InputError("Tokens and dollars are counted from 0 up.")


def _outcome(store: Store, result: TaskResult, earlier: int, *, now: float) -> Outcome:
    if result.status == "completed":
        return Outcome(
            state=State.DONE,
            result=result.text,
            spent=result.spent,
            tokens=result.tokens,
            micro_usd=result.micro_usd,
        )
    after = after_failure(
        result.kind,
        earlier=earlier,
        now=now,
        chance=random.random(),  # noqa: S311 - spreads retries, guards nothing
        tuning=store.tuning,
        reset=result.reset,
    )
    return Outcome(
        state=State.BLOCKED if after.stops_agent else after.state,
        kind=result.kind,
        reason=result.text or "it failed and gave no reason",
        until=after.until,
        signature=result.text[:200],
        spent=result.spent,
        tokens=result.tokens,
        micro_usd=result.micro_usd,
    )


@writes
def claim_files(
    store: Store,
    who: Identity,
    fence: int,
    files: Sequence[str],
    *,
    task: int | None = None,
    now: float,
) -> dict[str, int]:
    """Claim more paths, all of them or none.

    Return the paths that are held, with the task that holds each; an empty answer means granted.
    A task does not wait for files while it holds some: go on without them, or release.
    """
    lease = get_own_lease(store, who, fence, task=task, now=now)
    assert lease.task is not None
    if not files:
        raise InputError("Say which paths.")
    wanted = [paths.normalise(file) for file in files]
    refuse_more_files(tasks.get_task(store, lease.task), wanted)
    held = leases.extend(store, fence, wanted, now=now)
    return {
        file: holder
        for pattern, holder in held.items()
        for file in wanted
        if paths.conflicts(pattern, file)
    }


def report_work(
    store: Store, who: Identity, fence: int, work: str, *, text: str = "", now: float
) -> int:
    """Record a piece of work that an attempt came across and leaves alone; return its task."""
    get_own_lease(store, who, fence, now=now)
    return attempt_reports.report_work(store, fence, work, text, now=now)


def refuse_more_files(task: Task, files: Sequence[str]) -> None:
    """Raise `Refused` if a task may not claim these files besides its own."""
    more = [file for file in files if file not in task.files]
    if more and task.request.confined:
        raise Refused(f"Task {full_label(task)} may change no more files than it was given.")
    for file in find_unnamed_settings([file.lstrip("/") for file in more], task.files):
        raise Refused(f"{file!r} is a setting of weft, which the task must name in `files:`.")


def propose(store: Store, who: Identity, project: Project, step: Proposal) -> int:
    """Record the step with which an attempt ends; return its task. The last proposal counts.

    A proposal against the agent files is refused, and the refusal is recorded.
    """
    if who.fence is None or who.task is None:
        raise Forbidden("Only an agent that weft started for a task ends with a step.")
    task = get_task(store, who.task)
    problem = find_problem(store, project, task, step)
    if not problem:
        propose_step(store, who.fence, to_builtins(step), now=time.time())
        return who.task
    refuse_step(store, who.fence, problem, now=time.time())
    refused = count_refused(history(store, task.id))
    last = " End now: a person decides." if refused > proposal.MOST_REFUSED else ""
    raise InputError(problem + last)


def find_problem(store: Store, project: Project, task: Task, step: Proposal) -> str:
    """Return the reason to refuse the step that an agent proposes; empty if it is allowed."""
    match step:
        case HandOverStep():
            giver = find_agent_of(store, project, task, task.agent or "")
            receiver = find_agent_of(store, project, task, step.agent)
            return proposal.find_problem(step, giver, receiver) if giver else "It has no agent."
        case SleepStep():
            try:
                proposal.parse_until(step.until, now=time.time())
            except InputError as error:
                return str(error)
    return ""


def find_agent_of(store: Store, project: Project, task: Task, name: str) -> Agent | None:
    """Return an agent with the file that counts for a task: that of its run, or of the checkout."""
    try:
        if task.run is None:
            return read_agent(project.root, name)
        files = get_settings(store, task.run).agents
        return parse_agent(files[name], name) if name in files else None
    except InputError:  # no file of this name
        return None
