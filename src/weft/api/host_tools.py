"""Tokens for the tools (MCP) of agents on worker hosts.

The host makes the token through the server. The server allows only the rights that the agent's
attempt has, and the token ends with the attempt.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weft.attempt.tool_token import ToolRights, describe_tool_rights
from weft.errors import Forbidden
from weft.model import Task
from weft.project.project import Project
from weft.project.site import parse_agent, read_agent
from weft.store import Store
from weft.store.leases import get_lease
from weft.store.runs import get_settings
from weft.store.tasks import get_task, list_attempts


def require_tool_rights(store: Store, project: Project, given: Mapping[str, Any]) -> None:
    """Raise `Forbidden` if a host asks for a token with other rights than its attempt has.

    `given` has the arguments of `create_token`; its fence names the attempt.
    """
    lease = get_lease(store, given["fence"])
    if lease.task is None:
        raise Forbidden("Tools are for agents: this lease is no attempt of a task.")
    task = get_task(store, lease.task)
    stage = next(
        made.stage for made in list_attempts(store, task.id) if made.number == lease.attempt
    )
    asked = ToolRights(
        name=given["name"],
        scopes=frozenset(given["scopes"]),
        tenant=given["tenant"],
        agents=frozenset(given["agents"]),
    )
    if asked != describe_tool_rights(task, stage, _read_sends_to(store, project, task)):
        raise Forbidden("The token of an agent's tools has the rights of its attempt alone.")
    if given["expires"] is not None:
        raise Forbidden("The token of an agent's tools ends with its attempt.")


def _read_sends_to(store: Store, project: Project, task: Task) -> tuple[str, ...]:
    if task.agent is None:
        return ()
    if task.run is None:
        return read_agent(project.root, task.agent).sends_to
    return parse_agent(get_settings(store, task.run).agents[task.agent], task.agent).sends_to
