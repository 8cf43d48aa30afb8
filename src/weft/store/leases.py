"""Leases after they were granted: every effect carries its fence, or is refused.

A lease is held, then suspect (its deadline passed, or its worker was found dead), then released.
Suspect leases still count: time alone frees no lease. Amounts end with the attempt; claims stay
with the task until it ends, is blocked or is sent back.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from weft import stages
from weft.admission import capacity
from weft.errors import AlreadyEnded, InputError, Refused, StaleFence
from weft.model import HANDED_OVER, LEAD, STEPS, TERMINAL, Demand, Lease, ObjectId, Outcome, State
from weft.store import ready, row_records
from weft.store.admission_rows import AdmissionRows
from weft.store.check_orders import is_ordered, is_wanted
from weft.store.claims import STALLED, bring_all_back, family, give_up, narrow_claims, pass_to_story
from weft.store.database import Row, Transaction, encode, encode_keys
from weft.store.entries import enter, enter_judged, set_stage
from weft.store.file_records import keep_files
from weft.store.gate import send_back
from weft.store.hops import has_happened, record_hop
from weft.store.lease_rows import NewLease, end_lease, settle_spending, write_lease
from weft.store.ledger import Ledger
from weft.store.limit_table import penalise, stop_agent
from weft.store.reviews import record_answers
from weft.store.session_hosts import prefer_host
from weft.store.store import reads, writes
from weft.store.tasks import get_row
from weft.store.team_rows import is_contending, is_entrant, is_out, join_team
from weft.store.teams import decide, record_failure
from weft.teams.choice import CandidateResult

_MAY_FOLLOW = frozenset(
    {State.DONE, State.FAILED, State.BLOCKED, State.GATING, State.PARKED, State.READY}
)
_PRESSURE = frozenset({"rate_limit", "overload", "capacity"})
"""Failures of the provider: they are no pattern of the task, however often they happen."""
_LATELY: Final = 5000  # events that are searched for the entries of a check
_KEEPS_CLAIMS = frozenset({State.GATING, State.PARKED, State.READY, State.PAUSED})


@writes
def renew(tx: Transaction, fences: Sequence[int], *, now: float) -> list[int]:
    """Renew several leases; return the fences that are no longer current."""
    lost = []
    alive: set[str | None] = set()
    for fence in fences:
        lease = tx.one("lease", fence=fence)
        if lease is None or lease["state"] == "released" or lease["kind"] == "run":
            lost.append(fence)  # a run has no process that could give a sign of life
        elif not _owns_task(tx, lease):
            lost.append(fence)
        else:
            tx.run("renew", fence=fence, deadline=now + tx.tuning.lease)
            alive.add(lease["worker"])
    for worker in sorted(worker for worker in alive if worker is not None):
        tx.run("heartbeat", id=worker, now=now)  # read by reapers on other hosts
    return lost


@writes
def report(tx: Transaction, fence: int, data: Mapping[str, object], *, now: float) -> None:
    """Log the progress of a running attempt."""
    _, task = _current(tx, fence)
    tx.log("progress", {**data, "fence": fence}, now=now, run=task["run"], task=task["id"])


@writes
def note_changes(
    tx: Transaction, fence: int, attempt: int, changes: Sequence[str], *, most: int, now: float
) -> None:
    """Log the changes around an attempt that its run has not logged yet, at most `most` of them in
    words."""
    lease, task = _current(tx, fence)
    known: set[str] = set()
    for row in tx.all("events_of_kind", run=task["run"], kind="surroundings_changed"):
        known.update(json.loads(row["data"])["causes"])
    fresh = [change for change in changes if _cause(change) not in known]
    if fresh:
        tx.event(
            "surroundings_changed",
            task,
            now=now,
            fence=lease["fence"],
            attempt=attempt,
            changes=fresh[:most],
            all=len(fresh),
            causes=[_cause(change) for change in fresh],
        )


@writes
def propose_step(
    tx: Transaction, fence: int, proposal: Mapping[str, object], *, now: float
) -> None:
    """Record the step with which an attempt wants to end."""
    lease, task = _current(tx, fence)
    tx.event("step_proposed", task, now=now, attempt=lease["attempt"], proposal=proposal)


@writes
def note_call(
    tx: Transaction,
    fence: int,
    tool: str,
    arguments: Mapping[str, object],
    answer: str,
    *,
    refused: bool,
    now: float,
) -> None:
    """Log a call of one of weft's tools by the agent of an attempt."""
    lease, task = _current(tx, fence)
    tx.event(
        "tool_called",
        task,
        now=now,
        attempt=lease["attempt"],
        tool=tool,
        arguments=arguments,
        answer=answer,
        refused=refused,
    )


@writes
def refuse_step(tx: Transaction, fence: int, reason: str, *, now: float) -> None:
    """Record that the proposal of an attempt was refused."""
    lease, task = _current(tx, fence)
    tx.event("step_refused", task, now=now, attempt=lease["attempt"], reason=reason)


def _cause(change: str) -> str:
    """Return a short name that recognises the same change again."""
    return hashlib.sha256(change.encode(errors="replace")).hexdigest()[:12]


@writes
def report_all(
    tx: Transaction, reports: Sequence[tuple[int, Mapping[str, object]]], *, now: float
) -> list[int]:
    """Log the progress of many attempts; return the fences that are no longer current."""
    lost = []
    for fence, data in reports:
        try:
            _, task = _current(tx, fence)
        except StaleFence:
            lost.append(fence)
            continue
        tx.log("progress", {**data, "fence": fence}, now=now, run=task["run"], task=task["id"])
    return lost


@reads
def find_lost(tx: Transaction, fences: Sequence[int]) -> list[int]:
    """List the fences that are no longer current: cancelled, adopted or reaped."""
    leases = {fence: tx.one("lease", fence=fence) for fence in fences}
    return [
        fence
        for fence, lease in leases.items()
        if lease is None or lease["state"] == "released" or not _owns_task(tx, lease)
    ]


@reads
def count_failures(tx: Transaction, task: int, kind: str) -> int:
    """Count the failures of this kind in a row, up to now."""
    kinds = [row["kind"] for row in tx.all("failures_of", task=task)]
    return next((n for n, failure in enumerate(kinds) if failure != kind), len(kinds))


@writes
def fix_team_base(tx: Transaction, fence: int, base: ObjectId) -> ObjectId:
    """Let all entrants of a team start from the same commit; return the commit of the first."""
    _, task = _current(tx, fence)
    if not is_contending(tx, task):
        return base
    tx.run("fix_team_base", task=task["story"], base=base)
    team = tx.one("team", task=task["story"])
    return base if team is None else str(team["base"])


@writes
def release(
    tx: Transaction,
    fence: int,
    *,
    now: float,
    reason: str = "handed_back",
    spent: Demand | None = None,
) -> bool:
    """Free the amounts of an attempt whose process has ended without an outcome.

    Its task becomes ready again, which counts as no failure, unless it was cancelled. Its
    reservation of a consumable counts as spent, except for the amounts in `spent`. Return False,
    without a change, if the lease had been released before.
    """
    lease = _lease(tx, fence)
    if lease["kind"] == "run":
        raise StaleFence(f"Fence {fence} is a run's, which is released when the run ends.")
    if lease["state"] == "released":
        return False
    _release(tx, lease, tx.redact(reason), spent or {}, now=now)
    return True


def _release(tx: Transaction, lease: Row, reason: str, spent: Demand, *, now: float) -> None:
    end_lease(tx, lease, reason, now=now)
    if lease["kind"] != "attempt":
        return
    settle_spending(tx, lease, spent)
    _end_attempt(tx, lease, reason, now=now)
    task = tx.one("task", id=lease["task"])
    assert task is not None
    tx.event(
        "attempt_released",
        task,
        now=now,
        fence=lease["fence"],
        attempt=lease["attempt"],
        reason=reason,
    )
    if task["state"] == State.RUNNING:
        ready.requeue(tx, task["id"], now=now, reason=reason)
    elif task["state"] == State.WAITING:
        ready.settle(tx, [task["id"]], now=now)  # reopened while its last process still ran
    if task["story"] is not None:
        decide(tx, task["story"], now=now)


@writes
def finish(tx: Transaction, fence: int, outcome: Outcome, *, now: float) -> State:
    """Record the outcome of an attempt, and move its task on.

    The same call again has no effect and returns the same. Return the task's state: the
    outcome's, blocked if it failed the same way too often, or ready if its story can no longer hold
    its files. Refuse an attempt whose task has ended already; `release` then records its spending.
    """
    if outcome.state not in _MAY_FOLLOW:
        raise InputError(f"An attempt cannot end in the state {outcome.state}.")
    if outcome.kind == "success" and outcome.state in (State.FAILED, State.BLOCKED):
        raise InputError(f"A success cannot end in the state {outcome.state}.")
    if (outcome.hop is not None) != (outcome.then is not None and outcome.kind == HANDED_OVER):
        raise InputError("A hand-over names the next agent and its stage.")
    if (outcome.state is State.PARKED) != (outcome.until is not None):
        raise InputError("A parked task needs a time until when, and only a parked one has it.")
    lease = _lease(tx, fence)
    task = tx.one("task", id=lease["task"]) if lease["task"] is not None else None
    if task is None:
        raise StaleFence(f"Fence {fence} is a {lease['kind']}'s; only an attempt can finish.")
    if lease["state"] == "released":
        return _finished_before(tx, lease, task, outcome)
    if State(task["state"]) in TERMINAL:
        raise AlreadyEnded(f"Task {task['id']} is {task['state']} already ({task['reason']}).")
    if not _owns_task(tx, lease):
        raise StaleFence(f"Fence {fence} is no longer current: its attempt was cancelled.")
    end_lease(tx, lease, "finished", now=now)
    settle_spending(tx, lease, outcome.spent)
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
    contends = is_contending(tx, task)
    if contends and is_out(state, outcome.kind):
        state = State.FAILED  # its team goes on without it
    if state in (State.READY, State.PARKED) and task["state"] == State.PAUSED:
        state = State.PAUSED  # a person paused it while it ran
    _end_attempt(tx, lease, outcome.kind, now=now, led_to=state)
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
        enter(tx, get_row(tx, number), now=now)
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
        enter_judged(tx, get_row(tx, story["id"]), now=now)
        return
    for row in family(tx, story["id"]):
        if row["id"] != story["id"]:
            send_back(tx, row, kind, reason, now=now)


def _end_attempt(
    tx: Transaction, lease: Row, outcome: str, *, now: float, led_to: State | None = None
) -> None:
    tx.run(
        "end_attempt",
        task=lease["task"],
        number=lease["attempt"],
        now=now,
        outcome=outcome,
        led_to=led_to,
    )


@writes
def extend(
    tx: Transaction, fence: int, files: Sequence[str], *, now: float, free: Sequence[str] = ()
) -> dict[str, int]:
    """Claim more files for a running task, at once or not at all.

    Empty means granted. Otherwise return the held patterns with their holders: no task waits for
    claims while holding claims, so the caller ends the attempt and asks for all files next time.
    Files in `free` are not claimed; they only must not be held.
    """
    _, task = _current(tx, fence)
    own = {number for number in (task["id"], task["story"]) if number is not None}
    scene = AdmissionRows(tx, now)
    needed = [*files, *free]
    held = scene.kept_files(task["repo"], needed) | scene.claims.held(task["repo"], needed, own=own)
    if held or not files:
        return held
    wanted = [*row_records.files(task["files"]), *files]
    holder = task["story"] if is_entrant(task) else task["id"]
    tx.run("add_claims", task=holder, repo=task["repo"], patterns=encode_keys(files))
    tx.run("set_files", id=task["id"], files=encode_keys(wanted))
    if task["state"] in STALLED:
        bring_all_back(tx, task["repo"])
    tx.event("claims_extended", task, now=now, files=list(files))
    return {}


@writes
def reserve(tx: Transaction, fence: int, demand: Demand, *, now: float) -> bool:
    """Reserve at least this much of a consumable (its budget) for a running attempt, if it fits
    now.

    Amounts are totals, so that the same call again has no effect. A larger reservation stays.
    """
    lease, _ = _current(tx, fence)
    capacity.refuse_odd_amounts(demand)
    scene = AdmissionRows(tx, now)
    held = {row["resource"]: row["amount"] for row in tx.all("costs_of", fence=fence)}
    asked = capacity.resolve(demand, lease["worker"], lease["host"])
    more = {name: n - held.get(name, 0) for name, n in asked.items() if n > held.get(name, 0)}
    if scene.shortages_of(more):
        return False
    for resource, amount in sorted(more.items()):
        tx.run("reserve", fence=fence, resource=resource, amount=amount)
    return True


@writes
def adopt(tx: Transaction, fence: int, worker: str, *, now: float) -> int:
    """Take over an attempt whose worker is gone but whose process lives; return the new fence.

    The attempt and its claims continue, the old fence is refused from now on. The adopter's slots
    may be exceeded by this, which only stops its further admissions.
    """
    before = _adopted_before(tx, fence, worker)
    if before is not None:
        return before
    lease, task = _current(tx, fence)
    if lease["state"] != "suspect":
        raise StaleFence(f"The lease {fence} is in good hands; only a suspect one can be adopted.")
    ledger = Ledger(tx, now)
    place = ledger.place(worker)
    if place.host != lease["host"] or _boot(tx, worker) != _boot(tx, lease["worker"]):
        raise Refused(f"{worker} is not where the attempt's process is ({lease['host']}).")
    costs = {
        f"worker:{worker}" if row["resource"].startswith("worker:") else row["resource"]: row[
            "amount"
        ]
        for row in tx.all("costs_of", fence=fence)
    }
    fresh = ledger.next_fence()
    tx.run("end_lease", fence=fence, now=now, ended="adopted")
    heir = NewLease(
        fence=fresh,
        kind="attempt",
        holder=lease["holder"],
        granted=now,
        deadline=now + tx.tuning.lease,
        worker=worker,
        host=place.host,
        task=lease["task"],
        attempt=lease["attempt"],
    )
    write_lease(tx, heir, encode(costs))
    tx.run("move_units", fence=fresh, old=fence)
    tx.run("hand_over_tokens", fence=fresh, old=fence)
    tx.run(
        "hand_over_attempt", fence=fresh, worker=worker, task=lease["task"], number=lease["attempt"]
    )
    tx.event("attempt_adopted", task, now=now, fence=fresh, worker=worker)
    tx.wake()
    return fresh


def _adopted_before(tx: Transaction, fence: int, worker: str) -> int | None:
    """Return the fence under which this worker has already adopted a lease."""
    lease = _lease(tx, fence)
    if lease["ended"] != "adopted":
        return None
    heir = tx.one("open_lease_of_task", task=lease["task"])
    same = heir is not None and (heir["attempt"], heir["worker"]) == (lease["attempt"], worker)
    return int(heir["fence"]) if heir is not None and same else None


def _boot(tx: Transaction, worker: str) -> str:
    row = tx.one("worker", id=worker)
    return "" if row is None else str(row["boot"])


@writes
def suspect_overdue(tx: Transaction, *, now: float) -> list[Lease]:
    """Mark overdue leases suspect; list every suspect lease; free none."""
    if any(lease["deadline"] is not None and lease["deadline"] < now for lease in _held(tx)):
        tx.run("suspect_overdue", now=now)
    return [row_records.lease(row) for row in tx.all("suspects")]


def _held(tx: Transaction) -> list[Row]:
    return [row for row in tx.all("open_leases") if row["state"] == "held"]


@writes
def free_proved_dead(tx: Transaction, fence: int, *, now: float, proof: str) -> bool:
    """Free a suspect lease whose holder was proved dead; `proof` is the evidence.

    Return False if the holder has renewed it in the meantime, or another process was faster.
    """
    lease = _lease(tx, fence)
    if lease["state"] != "suspect":
        return False
    task = tx.one("task", id=lease["task"]) if lease["task"] is not None else None
    run = None if task is None else task["run"]
    tx.event("lease_reaped", now=now, run=run, task=lease["task"], fence=fence, proof=proof)
    _release(tx, lease, "reaped", {}, now=now)
    return True


@writes
def take(
    tx: Transaction,
    kind: str,
    holder: str,
    demand: Demand,
    *,
    worker: str,
    now: float,
    entries: Sequence[str] = (),
) -> int | None:
    """Lease a gate or a check; return the fence, or None if it does not fit.

    `entries` are the entries of a check, for display. A gate may be taken over at its deadline
    without proof of death, since landing intents only roll forward.
    """
    if kind not in ("gate", "check"):
        raise InputError(f"A {kind} lease is not taken this way.")
    capacity.refuse_odd_amounts(demand)
    scene = AdmissionRows(tx, now)
    place = scene.ledger.place(worker)
    resolved = capacity.resolve(demand, place.worker, place.host)
    held = tx.one("open_leases_held_by", kind="gate", holder=holder) if kind == "gate" else None
    if held is not None:
        if held["deadline"] is None or held["deadline"] >= now:
            return None
        for row in tx.all("costs_of", fence=held["fence"]):
            scene.ledger.enter({row["resource"]: -row["amount"]})
    if scene.shortages_of(resolved):
        return None
    if held is not None:
        end_lease(tx, held, "taken_over", now=now)
    fence = scene.ledger.next_fence()
    lease = NewLease(
        fence=fence,
        kind=kind,
        holder=holder,
        granted=now,
        deadline=now + tx.tuning.lease,
        worker=worker,
        host=place.host,
    )
    write_lease(tx, lease, encode(resolved))
    tx.event(
        "lease_taken",
        now=now,
        fence=fence,
        lease=kind,
        holder=holder,
        worker=worker,
        entries=entries,
    )
    return fence


def _lease(tx: Transaction, fence: int) -> Row:
    lease = tx.one("lease", fence=fence)
    if lease is None:
        raise unknown_fence(fence)
    return lease


def unknown_fence(fence: int) -> StaleFence:
    return StaleFence(f"You were never given the fence {fence}.")


def _current(tx: Transaction, fence: int) -> tuple[Row, Row]:
    """Return the open lease of an attempt and its task; refuse a fence that is not current."""
    lease = _lease(tx, fence)
    task = tx.one("task", id=lease["task"]) if lease["task"] is not None else None
    if task is None or lease["state"] == "released" or not _owns_task(tx, lease):
        raise StaleFence(f"Fence {fence} is no longer current ({lease['ended'] or 'task ended'}).")
    return lease, task


def _owns_task(tx: Transaction, lease: Row) -> bool:
    """Tell whether a lease's attempt has not ended, and a gate waits for its check: a cancelled
    process keeps its amounts only."""
    if lease["kind"] == "check":
        return is_wanted(tx, lease["fence"])
    if lease["kind"] != "attempt":
        return True
    attempt = tx.one("attempt", task=lease["task"], number=lease["attempt"])
    return attempt is not None and attempt["ended"] is None


@reads
def list_open(tx: Transaction) -> list[Lease]:
    return [row_records.lease(row) for row in tx.all("open_leases")]


class OpenCheck(Struct, frozen=True, kw_only=True):
    """A check under way."""

    since: float
    entries: tuple[str, ...]  # empty: not known any more
    fence: int = 0
    host: str = ""  # the worker host that runs it; '': home


@reads
def list_checks(tx: Transaction, run: str) -> list[OpenCheck]:
    """List the checks of a run that are under way, oldest first."""
    taken = [json.loads(row["data"]) for row in tx.all("lately_taken", most=_LATELY)]
    entries = {event["fence"]: tuple(event["entries"]) for event in taken}
    return [
        OpenCheck(
            since=lease.granted,
            entries=entries.get(lease.fence, ()),
            fence=lease.fence,
            host=(lease.host or "") if is_ordered(tx, lease.fence) else "",
        )
        for lease in list_open(tx)
        if (lease.kind, lease.holder) == ("check", run)
    ]


@reads
def find_answer(tx: Transaction, fence: int) -> tuple[str, str] | None:
    """Return the outcome of an attempt that was finished under a fence, and its result or
    reason."""
    row = tx.one("answer_under", fence=fence)
    return None if row is None else (row["outcome"], row["answer"])


@reads
def get_lease(tx: Transaction, fence: int) -> Lease:
    return row_records.lease(_lease(tx, fence))


@reads
def attempts_per_task(tx: Transaction, agent: str, stage: str, *, most: int = 100) -> float:
    """Return how many attempts a success of this agent in this stage took lately, 1 or more."""
    row = tx.one("tries_alike", agent=agent, stage=stage, most=most)
    return max(1.0, row["attempts"] / row["tasks"]) if row is not None and row["tasks"] else 1.0


@reads
def durations(
    tx: Transaction, agent: str, stage: str, *, most: int = 100
) -> list[tuple[int, float]]:
    """List the latest durations of successes of this kind, as (files, seconds)."""
    rows = tx.all("durations_alike", agent=agent, stage=stage, most=most)
    return [(row["size"], row["seconds"]) for row in rows]
