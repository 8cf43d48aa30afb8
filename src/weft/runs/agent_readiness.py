"""The agents of a run before its start: each program is installed, and no agent is stopped."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping

from weft import git
from weft.agents.agent import Agent
from weft.errors import InputError
from weft.git.repository import find_repository_id
from weft.model import HUMAN, Worker
from weft.process.process_identity import get_place
from weft.project.agent_list import explain_stopped
from weft.project.agent_programs import (
    explain_all_missing,
    explain_all_unreachable,
    explain_missing,
    find_program,
)
from weft.project.host_agents import NO_PROGRAM
from weft.project.project import Project
from weft.project.site import agent_names, read_agent
from weft.store import Store
from weft.store.limit_table import use_of_agents
from weft.store.workers import list_serving


def require_agents(project: Project, store: Store, agents: Mapping[str, Agent]) -> None:
    """Raise an `InputError` that names each agent that cannot start, and agents that can.

    A program that this host lacks is no problem if a present worker of another host has it.
    """
    names = [name for name in agents if name != HUMAN]
    use = use_of_agents(store, names, now=time.time())
    stopped = {name: use[name].stopped for name in names}
    problems = [explain_stopped(name, reason) for name, reason in stopped.items() if reason]
    offers = find_offers(project, store, names)
    problems += _explain_missing(project, [agents[name] for name in names if not offers[name]])
    if problems:
        raise InputError("\n".join([*problems, _name_usable(project, store, agents)]))


def require_offered(project: Project, agent: Agent) -> None:
    """Raise an `InputError` unless this host or a present worker host has the agent's program."""
    program = find_program(agent, project.root, project.environment)
    if program.path is not None:
        return
    if project.has_store:
        with project.open_store() as store:
            if find_offers(project, store, [agent.name])[agent.name]:
                return
    raise InputError(explain_missing(agent, program))


def find_offers(project: Project, store: Store, agents: Iterable[str]) -> dict[str, list[str]]:
    """Map agents to the other hosts whose present workers have the programs of these agents."""
    here, repo = get_place().host, find_repository_id(git.common_directory(project.root)) or ""
    workers = [
        worker for worker in list_serving(store, repo, now=time.time()) if worker.host != here
    ]
    return {
        agent: sorted({worker.host for worker in workers if _has_program(worker, agent)})
        for agent in agents
    }


def _has_program(worker: Worker, agent: str) -> bool:
    return not worker.lacks.get(agent, "").endswith(NO_PROGRAM)


def _explain_missing(project: Project, agents: Collection[Agent]) -> Iterator[str]:
    programs = [(agent, find_program(agent, project.root, project.environment)) for agent in agents]
    unreachable = explain_all_unreachable(
        programs, project.config, project.environment, project.root
    )
    for names, reason in (*explain_all_missing(programs), *unreachable):
        yield f"{names} cannot start: {reason}"


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
