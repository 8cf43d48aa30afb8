"""The agents of home that a host can run, and what it lacks for the rest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from weft.agents.agent import Agent
from weft.config import BoxKind
from weft.errors import InputError
from weft.project.agent_programs import find_program
from weft.project.site import Site, parse_agent

NO_PROGRAM: Final = "is not installed"


def list_able_agents(files: Mapping[str, str], site: Site) -> list[str]:
    """List the agents whose programs this host has."""
    return [name for name, agent in _parse(files).items() if _find_program(agent, site)]


def find_lacks(files: Mapping[str, str], site: Site) -> dict[str, str]:
    """Map agents to the program, variables or sandbox that this host lacks for them.

    An agent without its program is never started here. Variables and a sandbox may be wanted by
    some tasks only, so such an agent is started.
    """
    lacks = {name: _find_lack(agent, site) for name, agent in _parse(files).items()}
    return {name: lack for name, lack in lacks.items() if lack}


def _parse(files: Mapping[str, str]) -> dict[str, Agent]:
    agents = {}
    for name, text in sorted(files.items()):
        try:
            agents[name] = parse_agent(text, name)
        except InputError:
            continue  # home reports the broken file
    return agents


def _find_program(agent: Agent, site: Site) -> bool:
    return find_program(agent, site.root, site.environment).path is not None


def _find_lack(agent: Agent, site: Site) -> str:
    if not _find_program(agent, site):
        return f"{find_program(agent, site.root, site.environment).name} {NO_PROGRAM}"
    lacks = [f"{name} is not set" for name in agent.env_passed if name not in site.environment]
    if agent.sandbox is not BoxKind.OFF and site.able.resolve(agent.sandbox) is BoxKind.OFF:
        lacks.append("there is no sandbox")
    return ", ".join(lacks)
