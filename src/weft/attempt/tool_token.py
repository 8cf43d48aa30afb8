"""The rights of the token with which an agent calls weft's own tools."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from weft.model import LEAD, Task


class ToolRights(Struct, frozen=True, kw_only=True):
    name: str
    scopes: frozenset[str]
    tenant: str
    agents: frozenset[str]  # to which it may send work


def describe_tool_rights(task: Task, stage: str | None, sends_to: Sequence[str]) -> ToolRights:
    """Return the rights of an attempt: a lead also sends work to the agents that its file names."""
    leads = stage == LEAD
    return ToolRights(
        name=f"task {task.id}",
        scopes=frozenset({"read", "work"} if leads else {"read"}),
        tenant=task.tenant,
        agents=frozenset(sends_to if leads else ()),
    )
