"""The agents that a plan names, and those that have no file."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from weft.plan.plan_records import ParsedPlan, PlanTask, Problem, Severity
from weft.project.site import AGENTS, agent_names

USUAL_STAGE: Final = "implement"
"""The stage of a task without stages; its agent is the agent of the run."""


def find_unknown_agents(reading: ParsedPlan, root: Path) -> tuple[Problem, ...]:
    """Find the agents of open tasks that have no file; none before `weft init` wrote any."""
    known = agent_names(root)
    if not known:
        return ()
    return tuple(
        Problem(
            file=reading.plan.name,
            line=task.line,
            column=task.column,
            code="unknown-agent",
            severity=Severity.ERROR,
            message=f"Task {task.id} names the agent {name!r}, which has no file in {AGENTS}.",
            suggestion=_suggest(name, known),
        )
        for task in reading.plan.tasks
        if not task.settled
        for name in dict.fromkeys(_list_named(task))
        if name not in known
    )


def _list_named(task: PlanTask) -> Iterator[str]:
    if task.agent is not None and not task.manual:
        yield task.agent
    yield from (stage for stage in task.stages if stage != USUAL_STAGE)
    if task.team is not None:
        yield from task.team.agents
        if task.team.judge is not None:
            yield task.team.judge


def _suggest(name: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(name[:60], known, n=1)
    return f"Did you mean {near[0]}?" if near else f"There are: {', '.join(known)}."
