"""The agents of a run before its start: each program is installed, and no agent is stopped."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping

from weft.agents.agent import Agent
from weft.errors import InputError
from weft.model import HUMAN
from weft.process.process_identity import get_place
from weft.project.agent_list import explain_stopped
from weft.project.agent_programs import explain_missing, find_program
from weft.project.own_repository import get_repository
from weft.project.project import Project
from weft.project.site import agent_names, read_agent
from weft.store import Store
from weft.store.limit_table import use_of_agents
from weft.store.workers import list_serving


def require_agents(project: Project, store: Store, agents: Mapping[str, Agent]) -> None:
    """Raise an `InputError` that names each agent that cannot start, and agents that can.

    A worker of another host may have programs that this host lacks, so then only stopped agents
    count.
    """
    names = [name for name in agents if name != HUMAN]
    use = use_of_agents(store, names, now=time.time())
    stopped = {name: use[name].stopped for name in names}
    problems = [explain_stopped(name, reason) for name, reason in stopped.items() if reason]
    if not _is_served_elsewhere(store, get_repository(project.root, store)):
        problems += _explain_missing(project, [agents[name] for name in names])
    if problems:
        raise InputError("\n".join([*problems, _name_usable(project, store, agents)]))


def _is_served_elsewhere(store: Store, repo: str) -> bool:
    here = get_place().host
    return any(worker.host != here for worker in list_serving(store, repo, now=time.time()))


def _explain_missing(project: Project, agents: Collection[Agent]) -> Iterator[str]:
    for agent in agents:
        program = find_program(agent, project.root, project.environment)
        if program.path is None:
            yield f"Agent {agent.name} cannot start: {explain_missing(agent, program)}"


def _name_usable(project: Project, store: Store, asked: Collection[str]) -> str:
    """Name the agents that could do the work instead."""
    names = [name for name in agent_names(project.root) if name not in asked]
    use = use_of_agents(store, names, now=time.time())
    usable = []
    for name in names:
        try:
            agent = read_agent(project.root, name)
        except InputError:
            continue  # `weft agents` lists broken files
        program = find_program(agent, project.root, project.environment)
        if program.path is not None and not use[name].stopped:
            usable.append(f"{name} ({program.name})")
    if not usable:
        return "No other agent of .weft/agents has an installed program; `weft agents` lists them."
    first = usable[0].partition(" ")[0]
    return (
        f"Agents that can start: {', '.join(usable)}. `--agent {first}` gives {first} the tasks "
        "that name no agent."
    )
