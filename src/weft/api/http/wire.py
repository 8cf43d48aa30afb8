"""The public shape of answers, where that is not a record's own.

Most records are answered as they are: their fields are the public shape. Here is what differs:
lists with a cursor, names instead of numbers, what is derived, and what is left out. The shapes
are what the OpenAPI document says; mypy holds the functions to them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any, Final, Literal

from msgspec import to_builtins
from msgspec.structs import replace
from typing_extensions import TypedDict

from weft import model
from weft.runs import explanation, task_diff
from weft.runs.attempt_output import AttemptOutput
from weft.store.summaries import Cost, RunBudget
from weft.swarm import swarm_records
from weft.swarm.identity import Identity

_COSTS: Final = 200  # of a run, at most
_CLASSES: Final = {one.value: one.name.lower() for one in model.Class}
_PRIORITIES: Final = {one.value: one.name.lower() for one in model.Priority}


class WireCapacity(TypedDict):
    """How many tasks it has, may have, and may still take."""

    current: int
    max: int
    available: int


class WireMember(TypedDict):
    """An agent that joined the swarm."""

    id: str
    name: str
    is_lead: bool
    role: str
    capabilities: list[str]
    tenant: str | None
    status: str
    capacity: WireCapacity
    tasks: list[swarm_records.Held]
    offers: list[int]
    seen: float


class Agents(TypedDict):
    agents: list[WireMember]
    after: str | None  # to ask on with; null: that was all


class Caller(TypedDict):
    """Whose token this is."""

    id: str
    name: str
    scopes: list[str]
    tenant: str | None
    task: int | None


class WireMe(TypedDict):
    token: Caller
    agent: WireMember | None  # the one that acts, if that is clear
    agents: list[WireMember]


class Closed(TypedDict):
    id: str
    closed: bool


class Inbox(TypedDict):
    messages: list[model.Message]
    ack: str | None  # confirms them, given back with the next request


class WireMessage(TypedDict):
    message: model.Message


class WirePolled(TypedDict):
    trigger: swarm_records.Trigger | None  # null: nothing came within the time
    capacity: WireCapacity


_Classed = TypedDict("_Classed", {"class": str})  # a name that no field in a class can have


class TaskLine(_Classed):
    id: int
    name: str
    run: str | None
    tenant: str
    state: str
    reason: str
    since: float
    agent: str | None
    stage: str | None
    priority: str
    worker: str | None
    created_by: str | None
    submitted: float


class Tasks(TypedDict):
    tasks: list[TaskLine]
    after: int | None  # to ask on with; null: that was all


class WireTask(_Classed):
    id: int
    run: str | None
    name: str
    tenant: str
    text: str
    details: dict[str, Any]
    state: str
    since: float
    reason: str
    until: float | None
    priority: str
    agent: str | None
    stage: str | None
    uses: dict[str, int]
    files: list[str]
    submitted: float
    pinned: str | None
    offered_to: str | None
    created_by: str | None
    result: str


class WireState(TypedDict):
    task: int
    state: str


class WireTaskChange(TypedDict):
    task: int
    changed: bool  # false: it was so before


class Extended(TypedDict):
    """Which files could not be claimed, and the task that holds each; none: all were."""

    held: dict[str, int]


class WireWhy(TypedDict):
    """Where a task is, and what keeps it there."""

    task: int
    state: str
    since: float
    reason: str
    until: float | None
    waits: list[model.Wait]
    place: explanation.RankPlace | None
    attempts: list[model.Attempt]


class Queued(TypedDict):
    task: int
    run: str | None
    name: str
    waits: list[model.Wait]


class WireEntry(TypedDict):
    run: str
    entry: str
    state: str
    tasks: list[int]


class WireQueue(TypedDict):
    ready: list[Queued]
    count: int  # how many are ready
    gates: list[WireEntry]  # the first that ask to land, by run


class Runs(TypedDict):
    runs: list[model.Run]
    after: str | None  # to ask on with; null: that was all


class WireRun(TypedDict):
    run: model.Run
    tasks: dict[str, int]  # how many are in each state


class WireLimits(TypedDict):
    limits: list[model.Limit]


class SetLimit(TypedDict):
    resource: str
    capacity: int
    before: int | None


class WireRunCost(TypedDict):
    run: str | None
    tokens: int
    micro_usd: int
    budget: RunBudget | None
    tasks: list[Cost]  # those that took the most
    left_out: int  # how many more there are; the sums are of all


class Costs(TypedDict):
    runs: list[WireRunCost]
    after: str | None  # to ask on with; null: that was all


class WireToken(TypedDict):
    id: str
    name: str
    scopes: list[str]
    tenant: str | None
    agents: list[str] | None  # null: it was made before tokens named agents, and sends to all
    created: float
    expires: float | None
    revoked: float | None


class MadeToken(WireToken):
    secret: str  # the token itself; shown this once


class WireTokens(TypedDict):
    tokens: list[WireToken]
    after: str | None  # to ask on with; null: that was all


class Revoked(TypedDict):
    id: str
    revoked: bool


class WireLine(TypedDict):
    attempt: int
    text: str


class Lines(TypedDict):
    lines: list[WireLine]
    truncated: bool  # there was more before these


class WireDiff(TypedDict):
    task: int
    attempt: int | None
    landed: bool
    base: str
    commit: str
    diff: str


class Health(TypedDict):
    status: Literal["ok"]


def capacity(one: model.Capacity) -> WireCapacity:
    return {"current": one.current, "max": one.max, "available": one.available}


def agent(one: swarm_records.Member) -> WireMember:
    return {
        "id": one.id,
        "name": one.name,
        "is_lead": one.is_lead,
        "role": one.role,
        "capabilities": list(one.capabilities),
        "tenant": one.tenant,
        "status": one.status,
        "capacity": capacity(one.capacity),
        "tasks": list(one.tasks),
        "offers": list(one.offers),
        "seen": one.seen,
    }


def caller(who: Identity) -> Caller:
    return {
        "id": who.token,
        "name": who.name,
        "scopes": sorted(who.scopes),
        "tenant": who.tenant,
        "task": who.task,
    }


def page(lines: list[dict[str, Any]], after: int | None) -> dict[str, Any]:
    """A page of tasks, in the shape of `Tasks`: the fields are there, but for the names of two."""
    for line in lines:
        line["class"] = _CLASSES[line.pop("klass")]
        line["priority"] = _PRIORITIES[line["priority"]]
    return {"tasks": lines, "after": after}


def task(one: model.Task) -> WireTask:
    return {
        "id": one.id,
        "run": one.run,
        "name": one.name,
        "tenant": one.tenant,
        "text": one.text,
        "details": {**to_builtins(one.request), **one.attached},
        "state": one.state,
        "since": one.since,
        "reason": one.reason,
        "until": one.until,
        "class": one.klass.name.lower(),
        "priority": one.priority.name.lower(),
        "agent": one.agent,
        "stage": one.stage,
        "uses": dict(one.demand),
        "files": list(one.files),
        "submitted": one.submitted,
        "pinned": one.pinned,
        "offered_to": one.offered_to,
        "created_by": one.created_by,
        "result": one.result,
    }


def queue(one: explanation.QueueView, most: int) -> WireQueue:
    return {
        "ready": [
            {
                "task": task.id,
                "run": task.run,
                "name": task.name,
                "waits": list(waits),
            }
            for task, waits in one.ready
        ],
        "count": one.count,
        "gates": [
            {"run": each.run, "entry": each.id, "state": each.state, "tasks": list(each.tasks)}
            for each in one.entries[:most]
        ],
    }


def run(one: model.Run, who: Identity) -> model.Run:
    """A run; where the server keeps its repository and plan is no business of a tenant's."""
    if who.tenant is None:
        return one
    return replace(one, repo="", plan=one.plan.rpartition("/")[2])


def run_cost(one: explanation.RunCost) -> WireRunCost:
    told = sorted(one.costs, key=lambda cost: (-cost.micro_usd, -cost.tokens, cost.task))
    return {
        "run": one.run,
        "tokens": one.tokens,
        "micro_usd": one.micro_usd,
        "budget": one.budget,
        "tasks": told[:_COSTS],
        "left_out": max(0, len(told) - _COSTS),
    }


def token(one: model.Token) -> WireToken:
    return {
        "id": one.id,
        "name": one.name,
        "scopes": sorted(one.scopes),
        "tenant": one.tenant,
        "agents": None if one.agents is None else sorted(one.agents),
        "created": one.created,
        "expires": one.expires,
        "revoked": one.revoked,
    }


def why(one: explanation.Explanation) -> WireWhy:
    return {
        "task": one.task.id,
        "state": one.task.state,
        "since": one.task.since,
        "reason": one.task.reason,
        "until": one.task.until,
        "waits": list(one.waits),
        "place": one.place,
        "attempts": list(one.attempts),
    }


def last_lines(found: Iterable[AttemptOutput], most: int) -> Lines:
    kept = deque(found, maxlen=most + 1)
    lines: list[WireLine] = [{"attempt": one.attempt, "text": whole(one.text)} for one in kept]
    return {"lines": lines[-most:], "truncated": len(lines) > most}


def difference(one: task_diff.TaskDiff) -> WireDiff:
    return {
        "task": one.task,
        "attempt": one.attempt,
        "landed": one.landed,
        "base": one.base,
        "commit": one.commit,
        "diff": one.patch.decode(errors="replace"),
    }


def whole(text: str) -> str:
    """Text without halves of characters, for which JSON has no place."""
    return text.encode(errors="replace").decode()
