"""Changes of an unfinished run: its agents, budget, slots, settings and target, or its restart."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from weft import git
from weft.agents.agent import Agent
from weft.errors import InputError, Refused
from weft.model import HUMAN, TERMINAL, Run, Stage, State, Task
from weft.operations.steering import ControlResult
from weft.project.agent_demand import demand_with_agent
from weft.project.project import Project
from weft.project.site import agent_names, parse_agent, read_agent_file, read_chain
from weft.runs.agent_readiness import require_agents, require_offered
from weft.runs.plan_check import USUAL_STAGE
from weft.runs.preparation import USUAL_AGENT, USUAL_DOLLARS, RunOptions, require_target
from weft.runs.run_settings import compare_settings, read_settings
from weft.store import Store
from weft.store.limit_table import set_limit
from weft.store.runs import add_budget, change_settings, get_run, get_settings, set_target
from weft.store.server_operations import hosted
from weft.store.tasks import change_stages, list_run
from weft.words import describe_task
from weft.workspace.names import trunk_ref

_SETTLED: Final = TERMINAL | {State.BLOCKED, State.GATING}
"""States of tasks that start no agent by themselves."""

_SLOT_LIMITS: Final = ("run:{}/agents", "stage:{}/test", "stage:{}/implement")


def set_slots(store: Store, run: str, slots: int) -> None:
    """Let so many agents of a run work at a time."""
    for limit in _SLOT_LIMITS:
        set_limit(store, limit.format(run), slots, now=time.time())


@hosted("write")
def set_budget(project: Project, run: str, micro_usd: int) -> None:
    """Limit the spending of a run, also of a run that was submitted without a budget."""
    resource = f"run:{run}/usd"
    with project.open_store() as store:
        settings = get_settings(store, run)
        add_budget(store, run, micro_usd, now=time.time())
        for task in _list_open(store, run):
            stages = [
                step
                if resource in step.demand or not step.agent or step.agent == HUMAN
                else replace(
                    step,
                    demand={
                        **step.demand,
                        resource: min(micro_usd, _reserve(task, settings.agents.get(step.agent))),
                    },
                )
                for step in task.request.stages
            ]
            change_stages(store, task.id, stages, now=time.time())


def _reserve(task: Task, file: str | None) -> int:
    """Return the dollars that an attempt sets aside, in millionths."""
    if task.request.budget is not None:
        return max(1, task.request.budget)
    agent = None if file is None else parse_agent(file, task.agent or USUAL_AGENT)
    return (agent.budget.micro_usd if agent else None) or USUAL_DOLLARS


@hosted("write")
def set_agent(project: Project, run: str, agent: str) -> int:
    """Give the tasks that named no agent to another agent; return their number."""
    text = read_agent_file(project.root, agent)
    parsed = parse_agent(text, agent)
    with project.open_store() as store:
        require_agents(project, store, {agent: parsed})
        settings = get_settings(store, run)
        before = settings.agent
        files = {**settings.agents, **read_chain(project.root, agent)}
        after = replace(settings, agents=files, agent=agent)
        changes = [f"the agent for tasks that name none was {before}, is {agent}"]
        change_settings(store, run, after, changes, now=time.time())
        moved = 0
        for task in _list_open(store, run):
            stages = [_moved(step, task, before, parsed) for step in task.request.stages]
            if stages != list(task.request.stages):
                change_stages(store, task.id, stages, now=time.time())
                moved += 1
    return moved


@hosted("read")
def require_agents_of_run(project: Project, run: str) -> None:
    """Raise an `InputError` if an agent of a task that is still to start cannot start."""
    with project.open_store() as store:
        files = get_settings(store, run).agents
        names = {
            step.agent
            for task in list_run(store, run)
            if task.state not in _SETTLED
            for step in task.request.stages
        }
        agents = {name: parse_agent(files[name], name) for name in sorted(names & files.keys())}
        require_agents(project, store, agents)


def _moved(step: Stage, task: Task, before: str, agent: Agent) -> Stage:
    if step.name != USUAL_STAGE or step.agent != before:
        return step
    demand = demand_with_agent(agent, task, step.demand, step.name)
    return replace(step, agent=agent.name, demand=demand)


def _list_open(store: Store, run: str) -> list[Task]:
    return [task for task in list_run(store, run) if task.state not in TERMINAL]


def give_to_agent(project: Project, store: Store, task: Task, name: str) -> Stage:
    """Return the present stage of a task for another agent of this checkout; its run learns it."""
    if name not in agent_names(project.root):
        known = ", ".join(agent_names(project.root)) or "none"
        raise InputError(f"There is no agent {name!r} in .weft/agents (there are: {known}).")
    agent = parse_agent(read_agent_file(project.root, name), name)
    require_offered(project, agent)
    if task.agent in (None, HUMAN):
        raise Refused(f"{describe_task(task)} is done by a person, not by an agent.")
    if task.run is not None:
        settings = get_settings(store, task.run)
        if name not in settings.agents:
            files = {**read_chain(project.root, name), **settings.agents}
            changes = [f"the agent {name} was added"]
            after = replace(settings, agents=files)
            change_settings(store, task.run, after, changes, now=time.time())
    demand = demand_with_agent(agent, task, task.demand, task.stage)
    return Stage(name=task.stage or "implement", agent=name, demand=demand)


@hosted("write")
def update_settings(project: Project, run: str) -> ControlResult:
    """Give a run the settings of weft.toml and the agent files as they are now."""
    with project.open_store() as store:
        before = get_settings(store, get_run(store, run).id)
        after = read_settings(project, before)
        changes = compare_settings(before, after)
        changed = change_settings(store, run, after, changes, now=time.time())
        state = get_run(store, run).state
    text = "; ".join(changes) if changed else "weft.toml and its agent files are as they were"
    return ControlResult(text=f"Run {run}: {text}.", changed=changed, run=run, state=state)


@hosted("write")
def choose_target(project: Project, run: str, branch: str) -> None:
    """Set the branch that a submitted run moves at its end."""
    with project.open_store() as store:
        require_target(project.root, branch, get_run(store, run).base)
        set_target(store, run, branch)


def restart_options(project: Project, store: Store, old: Run, options: RunOptions) -> RunOptions:
    """Return the options of a run that goes on from the landed work of another run of its plan."""
    done = tuple(task.name for task in list_run(store, old.id) if task.state is State.DONE)
    # The earlier run marked the tasks that failed; only those that the author held back stay so.
    tried = tuple(task.name for task in list_run(store, old.id) if not task.request.held)
    options = replace(options, done=done, branch=old.branch, take=(*options.take, *tried))
    if not done or options.base != "HEAD":
        return options
    trunk = trunk_ref(old.id)
    if project.server is None and _has(project.root, trunk):
        return options
    return replace(options, base=trunk.removeprefix("refs/heads/"))


def _has(root: Path, trunk: str) -> bool:
    """Tell whether HEAD has the landed work already."""
    tip = git.find_ref(root, trunk)
    return tip is None or git.is_ancestor(root, tip, git.get_commit(root, "HEAD").id)
