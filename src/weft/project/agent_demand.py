"""The demand of a task that goes on with another agent."""

from __future__ import annotations

from weft.admission.capacity import change_agent
from weft.agents.agent import Agent
from weft.model import Demand, Task


def demand_with_agent(agent: Agent, task: Task, demand: Demand, stage: str | None) -> Demand:
    """Return the demand of a stage of a task, as this agent does it."""
    return change_agent(
        demand,
        run=task.run,
        stage=stage,
        agent=agent.name,
        provider=agent.provider,
        labels=(*task.request.needs_labels, *agent.needs_labels),
    )
