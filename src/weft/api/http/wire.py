"""The public shape of answers, where that is not a record's own.

Most records are answered as they are: their fields are the public shape. This module has the
differences: pages with a cursor, names in place of numbers, computed fields and hidden fields.
The OpenAPI document describes these shapes.
"""

from __future__ import annotations

from typing import Any, Final, Literal

from msgspec import to_builtins
from typing_extensions import TypedDict

from weft import model
from weft.api.shapes import Face, Shape
from weft.operations import member_records
from weft.operations.identity import Identity
from weft.operations.token_operations import MadeToken
from weft.runs import task_list
from weft.runs.task_diff import TaskDiff
from weft.store.summaries import Cost

_COSTS: Final = 200  # of a run, at most
_CLASSES: Final = {klass.value: klass.name.lower() for klass in model.Class}
_PRIORITIES: Final = {priority.value: priority.name.lower() for priority in model.Priority}


class PollAnswer(TypedDict):
    trigger: member_records.Trigger | None  # null: the time was over
    capacity: model.Capacity


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
        MadeToken: Shape(hidden=frozenset({"fence", "task"})),
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


def page(lines: list[dict[str, Any]], after: int | None) -> dict[str, Any]:
    """Return a `TaskPage`; the rows have its fields already, but for two."""
    for line in lines:
        line["class"] = _CLASSES[line.pop("klass")]
        line["priority"] = _PRIORITIES[line["priority"]]
    return {"tasks": lines, "after": after}
