"""The end of an attempt with an outcome: the outcome is recorded, and the task moves on.

A hop, the hand-over of a task between agents, is written by the transaction that ends its attempt,
so a task has one owner at any moment.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from msgspec.structs import replace

from weft import stages
from weft.admission import capacity
from weft.errors import AlreadyEnded, InputError, StaleFence
from weft.model import (
    GOES_ON,
    HANDED_OVER,
    LEAD,
    RESUMED,
    STEPS,
    SWARM,
    TERMINAL,
    ArgValue,
    Hop,
    NewHop,
    Outcome,
    State,
    WakingEvent,
)
from weft.store import ready, row_records
from weft.store.attempt_reports import keep_files
from weft.store.claims import build_on_siblings, family, give_up, narrow_claims, pass_to_story
from weft.store.database import Row, Transaction, encode, encode_keys
from weft.store.entries import enter, enter_judged, set_stage
from weft.store.gate import send_back
from weft.store.leases import get_lease_row, owns_task
from weft.store.ledger import end_attempt, end_lease, settle_spending
from weft.store.limit_table import penalise, stop_agent
from weft.store.reviews import record_answers
from weft.store.row_records import get_task_row
from weft.store.store import reads, writes
from weft.store.team_rows import is_contending, is_entrant, is_out, join_team
from weft.store.teams import decide, record_failure
from weft.teams.choice import CandidateResult

_MAY_FOLLOW = frozenset(
    {State.DONE, State.FAILED, State.BLOCKED, State.GATING, State.PARKED, State.READY}
)
_PRESSURE = frozenset({"rate_limit", "overload", "capacity"})
"""Failures of the provider: they are no pattern of the task, however often they happen."""
_KEEPS_CLAIMS = frozenset({State.GATING, State.PARKED, State.READY, State.PAUSED})


@writes
def finish(tx: Transaction, fence: int, outcome: Outcome, *, now: float) -> State:
    """Record the outcome of an attempt, and move its task on.

    The same call again has no effect and returns the same. Return the task's state: the
    outcome's, blocked if it failed the same way too often, or ready if its story can no longer hold
    its files. Refuse an attempt whose task has ended already; `release` then records its spending.
    """
    _refuse_odd_outcome(outcome)
    lease = get_lease_row(tx, fence)
    task = tx.one("task", id=lease["task"]) if lease["task"] is not None else None
    if task is None:
        raise StaleFence(f"Fence {fence} is a {lease['kind']}'s; only an attempt can finish.")
    if lease["state"] == "released":
        return _finished_before(tx, lease, task, outcome)
    if State(task["state"]) in TERMINAL:
        raise AlreadyEnded(f"Task {task['id']} is {task['state']} already ({task['reason']}).")
    if not owns_task(tx, lease):
        raise StaleFence(f"Fence {fence} is no longer current: its attempt was cancelled.")
    end_lease(tx, lease, "finished", now=now)
    settle_spending(tx, lease, outcome.spent)
    state, reason = _next_state(tx, lease, task, outcome, now=now)
    contends = is_contending(tx, task)
    if contends and is_out(state, outcome.kind):
        state = State.FAILED  # its team goes on without it
    if state in (State.READY, State.PARKED) and task["state"] == State.PAUSED:
        state = State.PAUSED  # a person paused it while it ran
    end_attempt(tx, lease, outcome.kind, now=now, led_to=state)
    _record_work(tx, lease, task, outcome, now=now)
    _move(tx, task, state, reason, outcome, now=now)
    tx.event(
        "attempt_finished",
        task,
        now=now,
        fence=fence,
        attempt=lease["attempt"],
        outcome=outcome.kind,
        state=state,
        reason=reason,
        options=list(outcome.options),
    )
    if contends and state is State.FAILED:
        record_failure(tx, task, CandidateResult.FAILED, reason, now=now)
    elif task["story"] is not None and state is not State.GATING:
        decide(tx, task["story"], now=now)
    return state


def _refuse_odd_outcome(outcome: Outcome) -> None:
    if outcome.state not in _MAY_FOLLOW:
        raise InputError(f"An attempt cannot end in the state {outcome.state}.")
    if outcome.kind == "success" and outcome.state in (State.FAILED, State.BLOCKED):
        raise InputError(f"A success cannot end in the state {outcome.state}.")
    if (outcome.hop is not None) != (outcome.then is not None and outcome.kind == HANDED_OVER):
        raise InputError("A hand-over names the next agent and its stage.")
    if (outcome.state is State.PARKED) != (outcome.until is not None):
        raise InputError("A parked task needs a time until when, and only a parked one has it.")


def _next_state(
    tx: Transaction, lease: Row, task: Row, outcome: Outcome, *, now: float
) -> tuple[State, str]:
    """Return the task's next state and its reason; a task that loses its claims gives them up."""
    state, reason = _after(tx, lease, task, outcome, now=now)
    if state is State.GATING and outcome.changed is not None:
        narrow_claims(tx, task, outcome.changed)
    if state is State.GATING and task["story"] is not None and not pass_to_story(tx, task):
        state, reason = State.READY, "its story had to give up its files"
        give_up(tx, task)
    if state is State.DONE and _has_messages(tx, task, lease["attempt"]):
        state, reason = State.READY, "a message came while it worked"
    if state is State.PARKED and _need_not_sleep(tx, lease, outcome):
        state, reason = State.READY, "the event it was to sleep for has come"
    return state, reason


def _record_work(tx: Transaction, lease: Row, task: Row, outcome: Outcome, *, now: float) -> None:
    """Record the candidate, the answers, the files, the hop and the provider's pressure."""
    tx.run(
        "record_work",
        task=task["id"],
        number=lease["attempt"],
        candidate=outcome.candidate,
        base=outcome.base,
        session=outcome.session,
        tokens=outcome.tokens,
        micro_usd=outcome.micro_usd,
        answer=tx.redact(outcome.result or outcome.reason),
    )
    record_answers(tx, task["id"], outcome.answers)
    keep_files(tx, task, lease["attempt"], outcome, now=now)
    if outcome.penalises is not None:
        penalise(tx, outcome.penalises, now=now)
    if outcome.stops_agent is not None:
        stop_agent(tx, outcome.stops_agent, outcome.reason, now=now)
    if outcome.hop is not None:
        record_hop(tx, task, outcome.hop, outcome, now=now)
    prefer_host(tx, lease, task, outcome)


def _finished_before(tx: Transaction, lease: Row, task: Row, outcome: Outcome) -> State:
    attempt = tx.one("attempt", task=lease["task"], number=lease["attempt"])
    if lease["ended"] != "finished" or attempt is None:
        raise StaleFence(
            f"Fence {lease['fence']} is no longer current: its lease ended ({lease['ended']})."
        )
    if attempt["outcome"] != outcome.kind:
        raise AlreadyEnded(
            f"Attempt {lease['attempt']} of task {task['id']} has ended already "
            f"({attempt['outcome']}); the first answer counts."
        )
    return State(attempt["led_to"])


def _after(
    tx: Transaction, lease: Row, task: Row, outcome: Outcome, *, now: float
) -> tuple[State, str]:
    """Return the task's next state and its reason: the outcome's, or blocked by repeated
    failures."""
    if outcome.kind == "success":
        _learn(tx, lease, task, now=now)
    if outcome.kind == "success" or outcome.kind in STEPS:
        return outcome.state, outcome.reason
    tx.run(
        "record_failure",
        task=task["id"],
        attempt=lease["attempt"],
        kind=outcome.kind,
        signature=tx.redact(outcome.signature),
        at=now,
    )
    goes_on = outcome.state in (State.READY, State.PARKED)
    if outcome.signature and goes_on and outcome.kind not in _PRESSURE:
        alike = tx.value(
            "failures_alike",
            task=task["id"],
            kind=outcome.kind,
            signature=tx.redact(outcome.signature),
        )
        if alike >= tx.tuning.pattern:
            return State.BLOCKED, f"failed {alike} times in the same way: {outcome.reason}"
    return outcome.state, outcome.reason


def _learn(tx: Transaction, lease: Row, task: Row, *, now: float) -> None:
    """Record the duration of a success, and ease its provider's penalty."""
    attempt = tx.one("attempt", task=task["id"], number=lease["attempt"])
    assert attempt is not None
    tx.run(
        "record_duration",
        task=task["id"],
        attempt=lease["attempt"],
        agent=task["agent"] or "",
        stage=task["stage"] or "",
        size=len(row_records.files(task["files"])),
        seconds=max(0.0, now - attempt["started"]),
        at=now,
    )
    for resource in row_records.demand(task["demand"]):
        if resource.startswith("provider:"):
            tx.run("count_success", provider=resource.removeprefix("provider:"))


def _need_not_sleep(tx: Transaction, lease: Row, outcome: Outcome) -> bool:
    """Tell whether the event that a task wants to sleep for came during its attempt."""
    attempt = tx.one("attempt", task=lease["task"], number=lease["attempt"])
    assert attempt is not None
    return outcome.wake is not None and has_happened(
        tx, outcome.wake, since=attempt["started"], base=outcome.base
    )


def _has_messages(tx: Transaction, task: Row, attempt: int) -> bool:
    """Tell whether a lead that has finished must continue, since messages wait for it.

    Bounded, so that two leads that write to each other come to an end.
    """
    if task["stage"] != LEAD or attempt >= tx.tuning.lead_turns:
        return False
    return bool(tx.all("messages_to_task", to=task["id"], most=1))


def _move(
    tx: Transaction, task: Row, state: State, reason: str, outcome: Outcome, *, now: float
) -> None:
    number: int = task["id"]
    if _looked_at_story(task, outcome) and state in (State.GATING, State.READY):
        _judge_story(tx, task, state, reason, outcome.kind, now=now)
        return
    if outcome.result:
        tx.run("set_result", id=number, result=tx.redact(outcome.result))
    if outcome.then is not None:
        capacity.refuse_odd_amounts(outcome.then.demand, f"Stage {outcome.then.name}")
        then = join_team(outcome.then, task["story"], task["run"]) if is_entrant(task) else None
        set_stage(tx, number, then or outcome.then)
    if outcome.files is not None:
        tx.run("set_files", id=number, files=encode_keys(outcome.files))
        build_on_siblings(tx, task, outcome.files)
    if outcome.sent_back or outcome.files is not None or state not in _KEEPS_CLAIMS:
        give_up(tx, task)
    if state is State.READY:
        ready.requeue(tx, number, now=now, reason=reason)
        return
    until = outcome.until if state is State.PARKED else None
    ready.leave(tx, task, state, now=now, reason=reason, until=until)
    if state is State.PARKED and outcome.wake is not None:
        tx.run("add_sleep", outcome.wake, task=number)
    if state is State.GATING:
        enter(tx, get_task_row(tx, number), now=now)
    if state in (State.DONE, State.GATING):
        ready.settle_dependents(tx, number, now=now)


def _looked_at_story(task: Row, outcome: Outcome) -> bool:
    """Tell whether this was the final review of a story's subtasks as a whole."""
    story = stages.looks(task["stage"]) and stages.maker(row_records.request(task).stages) is None
    judged = outcome.kind == "success" or stages.looks(outcome.kind)
    return story and judged and outcome.then is None


def _judge_story(
    tx: Transaction, story: Row, state: State, reason: str, kind: str, *, now: float
) -> None:
    """Let the reviewed subtasks of a story land, or send them back; the story waits for them."""
    set_stage(tx, story["id"], None)
    ready.leave(tx, story, State.WAITING, now=now, reason=reason)
    if state is State.GATING:
        enter_judged(tx, get_task_row(tx, story["id"]), now=now)
        return
    for row in family(tx, story["id"]):
        if row["id"] != story["id"]:
            send_back(tx, row, kind, reason, now=now)


def prefer_host(tx: Transaction, lease: Row, task: Row, outcome: Outcome) -> None:
    """Keep a task for the worker of its session, if the session can continue and there are other
    hosts; else end an earlier preference.

    The session and the workspace of an attempt are on a single host. After `tuning.prefer` seconds,
    or when that worker leaves, any host may start a new attempt from the work at home.
    """
    if task["repo"].startswith(SWARM) or task["gang"] is not None:
        return  # members have no sessions here; a gang starts at a single worker
    goes_on = outcome.session is not None and outcome.kind in GOES_ON | RESUMED
    if goes_on and tx.value("other_hosts", host=lease["host"]):
        if task["pinned"] is None or task["pin_until"] is not None:
            tx.run("set_pin", id=task["id"], pinned=lease["worker"], until=0.0)
    elif task["pin_until"] is not None:
        tx.run("set_pin", id=task["id"], pinned=None, until=None)


def record_hop(tx: Transaction, task: Row, hop: NewHop, outcome: Outcome, *, now: float) -> None:
    """Add the hand-over that ends the latest attempt of a task."""
    note = tx.redact(hop.note)
    args = {name: _redacted(tx, value) for name, value in hop.args.items()}
    giver, attempt = task["agent"] or "", task["attempt"]
    tx.run(
        "add_hop",
        task=task["id"],
        attempt=attempt,
        giver=giver,
        agent=hop.agent,
        note=note,
        args=encode(args),
        tree=hop.tree,
        candidate=outcome.candidate,
        base=outcome.base,
        at=now,
    )
    tx.event(
        "task_handed_over",
        task,
        now=now,
        attempt=attempt,
        giver=giver,
        agent=hop.agent,
        note=note,
        args=args,
    )


def _redacted(tx: Transaction, value: ArgValue) -> ArgValue:
    if isinstance(value, tuple):
        return tuple(tx.redact(item) for item in value)
    return tx.redact(value) if isinstance(value, str) else value


@reads
def list_hops(tx: Transaction, task: int) -> list[Hop]:
    """List the hand-overs of a task, oldest first."""
    return _records(tx.all("hops_of", task=task))


@reads
def list_run_hops(tx: Transaction, run: str) -> dict[int, list[Hop]]:
    """Map the tasks of a run to their hand-overs, oldest first."""
    rows = tx.all("hops_of_run", run=run)
    return {
        task: _records([row for row in rows if row["task"] == task])
        for task in sorted({row["task"] for row in rows})
    }


def _records(rows: Sequence[Row]) -> list[Hop]:
    # Converted by themselves: a text such as "5" must stay a text.
    return [replace(row_records.record(Hop, row, args={}), args=_args(row["args"])) for row in rows]


def _args(text: str) -> dict[str, ArgValue]:
    return {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in json.loads(text).items()
    }


def has_happened(tx: Transaction, event: WakingEvent, *, since: float, base: str | None) -> bool:
    """Tell whether an event came while the agent that waits for it, on `base`, was at work."""
    if event.kind == "trunk_moved":
        landings = tx.value("landings_since", run=event.subject, since=since, base=base or "")
        return bool(landings)
    row = tx.one("task", id=int(event.subject))
    return row is None or State(row["state"]) in TERMINAL
