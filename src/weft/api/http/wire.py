"""The public shape of answers, where that is not a record's own.

Most records are answered as they are: their fields are the public shape. This module has the
differences: pages with a cursor, names in place of numbers, computed fields and hidden fields.
The OpenAPI document describes these shapes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any, Final, Literal

from msgspec import Struct, defstruct, to_builtins
from typing_extensions import TypedDict

from weft import model
from weft.api.shapes import Face, Shape
from weft.gate.review_view import ReviewItem
from weft.operations import member_records
from weft.operations.identity import Identity
from weft.runs import explanation, task_list
from weft.runs.attempt_output import LogLine
from weft.runs.task_diff import TaskDiff
from weft.store import team_views
from weft.store.summaries import Cost

_COSTS: Final = 200  # of a run, at most
_CLASSES: Final = {klass.value: klass.name.lower() for klass in model.Class}
_PRIORITIES: Final = {priority.value: priority.name.lower() for priority in model.Priority}


class MemberPage(TypedDict):
    agents: list[member_records.Member]
    after: str | None  # for the next page; null: this was the last


class Me(Struct, frozen=True, kw_only=True):
    token: Identity
    agent: member_records.Member | None  # the member that acts, if that is clear
    agents: tuple[member_records.Member, ...]


class Closed(TypedDict):
    id: str
    closed: bool


class Inbox(TypedDict):
    messages: list[model.Message]
    ack: str | None  # confirms them, with the next request


class SentMessage(TypedDict):
    message: model.Message


class PollAnswer(TypedDict):
    trigger: member_records.Trigger | None  # null: the time was over
    capacity: model.Capacity


class TaskState(TypedDict):
    task: int
    state: str


class TaskChange(TypedDict):
    task: int
    changed: bool  # false: it was so before


class HeldFiles(TypedDict):
    """The files that could not be claimed, and the task that holds each; none: all were."""

    held: dict[str, int]


class QueuedTask(TypedDict):
    task: int
    run: str | None
    name: str
    waits: list[model.Wait]


class QueuedEntry(TypedDict):
    run: str
    entry: str
    state: str
    tasks: list[int]


class Queue(TypedDict):
    ready: list[QueuedTask]
    count: int  # of ready tasks
    gates: list[QueuedEntry]  # the first entries, by run


class RunPage(TypedDict):
    runs: list[model.Run]
    after: str | None  # for the next page; null: this was the last


class RunState(TypedDict):
    run: model.Run
    tasks: dict[str, int]  # number of tasks by state


class LimitList(TypedDict):
    limits: list[model.Limit]


class CostPage(Struct, frozen=True, kw_only=True):
    runs: tuple[task_list.RunCost, ...]
    after: str | None  # for the next page; null: this was the last


class TokenPage(Struct, frozen=True, kw_only=True):
    tokens: tuple[model.Token, ...]
    after: str | None  # for the next page; null: this was the last


class Revoked(TypedDict):
    id: str
    revoked: bool


class LogLines(TypedDict):
    lines: list[LogLine]
    truncated: bool  # there was more before these


class ReviewList(TypedDict):
    reviews: list[ReviewItem]


class Health(TypedDict):
    status: Literal["ok"]


def _details(task: model.Task) -> dict[str, Any]:
    return {**to_builtins(task.request), **task.attached}


def _landed(diff: TaskDiff) -> bool:
    return diff.landed


def _patch(diff: TaskDiff) -> str:
    return diff.patch.decode(errors="replace")


def _tokens(cost: task_list.RunCost) -> int:
    return cost.tokens


def _micro_usd(cost: task_list.RunCost) -> int:
    return cost.micro_usd


def _largest(cost: task_list.RunCost) -> list[Cost]:
    ranked = sorted(cost.costs, key=lambda task: (-task.micro_usd, -task.tokens, task.task))
    return ranked[:_COSTS]


def _left_out(cost: task_list.RunCost) -> int:
    """The number of tasks that are not listed; the sums count them too."""
    return max(0, len(cost.costs) - _COSTS)


INTERNAL: Final = frozenset({"repo", "path_seconds", "story", "gang", "pin_until"})
"""Fields of a task that only weft itself uses."""

FACE: Final = Face(
    {
        model.Task: Shape(
            hidden=INTERNAL | {"request", "attached"},
            renamed={"klass": "class", "demand": "uses"},
            computed={"details": _details},
        ),
        model.Summary: Shape(name="TaskLine", renamed={"klass": "class"}),
        member_records.Page: Shape(name="TaskPage"),
        model.Token: Shape(hidden=frozenset({"fence", "task"})),
        Identity: Shape(
            name="Caller", renamed={"token": "id"}, hidden=frozenset({"fence", "agents"})
        ),
        task_list.RunCost: Shape(
            hidden=frozenset({"costs"}),
            computed={
                "tokens": _tokens,
                "micro_usd": _micro_usd,
                "tasks": _largest,
                "left_out": _left_out,
            },
        ),
        TaskDiff: Shape(hidden=frozenset({"patch"}), computed={"landed": _landed, "diff": _patch}),
    }
)
show: Final = FACE.show

MadeToken: Any = defstruct(
    "MadeToken", [("secret", str)], bases=(FACE.describe(model.Token),), kw_only=True
)
"""A token and, this once, its secret."""


class Why(TypedDict):
    """The state of a task, and its causes."""

    task: int
    state: str
    since: float
    reason: str
    until: float | None
    waits: list[model.Wait]
    place: explanation.RankPlace | None
    attempts: list[model.Attempt]
    team: team_views.TeamView | None


def page(lines: list[dict[str, Any]], after: int | None) -> dict[str, Any]:
    """Return a `TaskPage`; the rows have its fields already, but for two."""
    for line in lines:
        line["class"] = _CLASSES[line.pop("klass")]
        line["priority"] = _PRIORITIES[line["priority"]]
    return {"tasks": lines, "after": after}


def queue(view: explanation.QueueView, most: int) -> Queue:
    return {
        "ready": [
            {"task": task.id, "run": task.run, "name": task.name, "waits": list(waits)}
            for task, waits in view.ready
        ],
        "count": view.count,
        "gates": [
            {"run": entry.run, "entry": entry.id, "state": entry.state, "tasks": list(entry.tasks)}
            for entry in view.entries[:most]
        ],
    }


def why(explained: explanation.Explanation) -> Why:
    task = explained.task
    return {
        "task": task.id,
        "state": task.state,
        "since": task.since,
        "reason": task.reason,
        "until": task.until,
        "waits": list(explained.waits),
        "place": explained.place,
        "attempts": list(explained.attempts),
        "team": explained.team,
    }


def last_lines(output: Iterable[LogLine], most: int) -> LogLines:
    kept = list(deque(output, maxlen=most + 1))
    return {"lines": kept[-most:], "truncated": len(kept) > most}
