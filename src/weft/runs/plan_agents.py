"""The agents that a plan names, and those that have no file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from weft.plan.plan_records import ParsedPlan, PlanTask, Problem
from weft.plan.problems import Problems
from weft.project.site import AGENTS, agent_names

USUAL_STAGE: Final = "implement"
"""The stage of a task without stages; its agent is the agent of the run."""


def find_unknown_agents(reading: ParsedPlan, root: Path) -> tuple[Problem, ...]:
    """Find the agents of open tasks that have no file; none before `weft init` wrote any."""
    known = agent_names(root)
    if not known:
        return ()
    problems = Problems(reading.plan.name)
    for task in reading.plan.tasks:
        unknown = [] if task.settled else [each for each in _list_named(task) if each not in known]
        for name in dict.fromkeys(unknown):
            problems.error(
                (task.line, task.column),
                "unknown-agent",
                f"Task {task.id} names the agent {name!r}, which has no file in {AGENTS}.",
                problems.suggest(name, known, f"There are: {', '.join(known)}."),
            )
    return problems.sorted()


def _list_named(task: PlanTask) -> Iterator[str]:
    if task.agent is not None and not task.manual:
        yield task.agent
    yield from (stage for stage in task.stages if stage != USUAL_STAGE)
    if task.team is not None:
        yield from task.team.agents
        if task.team.judge is not None:
            yield task.team.judge
