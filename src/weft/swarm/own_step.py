"""The step that an agent proposes for its own task by a tool.

The proposal is a row under the attempt's fence; the end of the attempt acts on it.
"""

from __future__ import annotations

import time

from msgspec import to_builtins

from weft.agents import proposal
from weft.agents.agent import Agent
from weft.agents.proposal import HandOverStep, Proposal, SleepStep
from weft.attempt.proposed_step import count_refused
from weft.errors import Forbidden, InputError
from weft.model import Task
from weft.project.project import Project
from weft.project.site import parse_agent, read_agent
from weft.store import Store
from weft.store.attempt_reports import propose_step, refuse_step
from weft.store.event_log import history
from weft.store.runs import get_settings
from weft.store.tasks import get_task
from weft.swarm.identity import Identity


def propose(store: Store, who: Identity, project: Project, step: Proposal) -> int:
    """Record the step with which an attempt ends; return its task. The last proposal counts.

    A proposal against the agent files is refused, and the refusal is recorded.
    """
    if who.fence is None or who.task is None:
        raise Forbidden("Only an agent that weft started for a task ends with a step.")
    task = get_task(store, who.task)
    problem = _find_problem(store, project, task, step)
    if not problem:
        propose_step(store, who.fence, to_builtins(step), now=time.time())
        return who.task
    refuse_step(store, who.fence, problem, now=time.time())
    refused = count_refused(history(store, task.id))
    last = " End now: a person decides." if refused > proposal.MOST_REFUSED else ""
    raise InputError(problem + last)


def _find_problem(store: Store, project: Project, task: Task, step: Proposal) -> str:
    match step:
        case HandOverStep():
            giver = _find_agent(store, project, task, task.agent or "")
            receiver = _find_agent(store, project, task, step.agent)
            return proposal.find_problem(step, giver, receiver) if giver else "It has no agent."
        case SleepStep():
            try:
                proposal.parse_until(step.until, now=time.time())
            except InputError as error:
                return str(error)
    return ""


def _find_agent(store: Store, project: Project, task: Task, name: str) -> Agent | None:
    try:
        if task.run is None:
            return read_agent(project.root, name)
        files = get_settings(store, task.run).agents
        return parse_agent(files[name], name) if name in files else None
    except InputError:  # no file of this name
        return None
