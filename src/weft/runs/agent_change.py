"""Another agent for a task that is retried."""

from __future__ import annotations

import time
from collections.abc import Mapping

from msgspec.structs import replace

from weft.agents.agent import Agent
from weft.errors import InputError, Refused
from weft.model import HUMAN, Stage, Task
from weft.project.agent_demand import demand_with_agent
from weft.project.project import Project
from weft.project.site import agent_names, parse_agent, read_agent_file, read_chain
from weft.runs.agent_readiness import require_offered
from weft.runs.control import ControlResult, describe_task, retry
from weft.runs.task_names import get_named_task
from weft.store import Store
from weft.store.runs import change_settings, get_settings
from weft.store.server_operations import hosted


@hosted("write")
def retry_with_agent(
    project: Project, name: str, agent: str, note: str, files: tuple[str, ...] = ()
) -> ControlResult:
    """Reopen a task and give its present stage to another agent of this checkout."""
    if agent not in agent_names(project.root):
        known = ", ".join(agent_names(project.root)) or "none"
        raise InputError(f"There is no agent {agent!r} in .weft/agents (there are: {known}).")
    text = read_agent_file(project.root, agent)
    parsed = parse_agent(text, agent)
    require_offered(project, parsed)
    with project.open_store() as store:
        task = get_named_task(store, name)
        if task.agent in (None, HUMAN):
            raise Refused(f"{describe_task(task)} is done by a person, not by an agent.")
        stage = _stage(task, parsed)
        if task.run is not None:
            _add_agent(store, task.run, agent, read_chain(project.root, agent))
        return retry(store, name, now=time.time(), note=note, stage=stage, files=files)


def _stage(task: Task, agent: Agent) -> Stage:
    """Return the task's present stage with the demand of another agent."""
    demand = demand_with_agent(agent, task, task.demand, task.stage)
    return Stage(name=task.stage or "implement", agent=agent.name, demand=demand)


def _add_agent(store: Store, run: str, agent: str, chain: Mapping[str, str]) -> None:
    """Add the files of an agent and its next agents to a run that does not have the agent yet."""
    settings = get_settings(store, run)
    if agent not in settings.agents:
        files = {**chain, **settings.agents}
        changes = [f"the agent {agent} was added"]
        change_settings(store, run, replace(settings, agents=files), changes, now=time.time())
