"""`weft agents`: the agent files of a repository, their programs and their use."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from weft.agents.agent import RECORDED, SCRIPTED, Agent
from weft.config import BoxKind, GateSettings
from weft.errors import InputError
from weft.model import AgentUse
from weft.process import box
from weft.project.agent_programs import Program, find_program, versions
from weft.project.boxes import find_container
from weft.project.project import Project
from weft.project.site import agent_names, parse_agent, read_agent
from weft.store.limit_table import resume_agent, use_of_agents
from weft.store.server_operations import hosted

WITHOUT_SANDBOX: Final = "without a box programs run with your rights, and read your secrets"


def describe_unboxed(gate: GateSettings, files: Mapping[str, str]) -> str:
    """Name the programs whose box the settings and agent files switch off; '' if there are none."""
    free: list[str] = []
    for name, text in files.items():
        with suppress(InputError):  # of an earlier weft, or broken: said elsewhere
            agent = parse_agent(text, name)
            if agent.sandbox is BoxKind.OFF and agent.runs not in (SCRIPTED, RECORDED):
                free.append(name)
    parts = ["checks and set-up (`sandbox` under [gate])"] * (gate.sandbox is BoxKind.OFF)
    parts += [f"{', '.join(sorted(free))} (`sandbox:` in the agent file)"] * bool(free)
    return f"off for {' and '.join(parts)}; {WITHOUT_SANDBOX}" if parts else ""


class ListedAgent(Struct, frozen=True, kw_only=True):
    name: str
    agent: Agent | None = None  # None: its file is broken
    error: str = ""  # and this is how
    program: Program | None = None
    use: AgentUse
    sandbox: str = ""  # the kind it gets on the machine that has the project

    @property
    def limit(self) -> int | None:
        """The limit in the store; before the first start, the limit of the agent file."""
        if self.use.limit is not None or self.agent is None:
            return self.use.limit
        return self.agent.max_concurrency


@hosted("read")
def survey_agents(project: Project) -> list[ListedAgent]:
    """List all agents with their programs' versions, without their secrets."""
    listed = with_versions(list_agents(project), project.environment)
    able = box.available(find_container(project.config.sandbox, project.root))
    return [
        replace(
            listing,
            agent=_in_public(listing.agent),
            sandbox=able.resolve(listing.agent.sandbox).value,
        )
        if listing.agent
        else listing
        for listing in listed
    ]


def _in_public(agent: Agent) -> Agent:
    """A command line or a variable may hold a key."""
    return replace(agent, template="", command=(), args=(), env_set={})


def list_agents(project: Project) -> list[ListedAgent]:
    """List all agents of a repository; a broken file is listed with its fault."""
    names = agent_names(project.root)
    use = _use(project, names)
    return [_listed(project, name, use[name]) for name in names]


def with_versions(listed: list[ListedAgent], environment: Mapping[str, str]) -> list[ListedAgent]:
    """The same, once the programs have been asked for their versions, which takes its time."""
    known = versions(
        [
            (listing.agent, listing.program)
            for listing in listed
            if listing.agent and listing.program
        ],
        environment,
    )
    return [
        replace(
            listing,
            program=replace(listing.program, version=known.get(listing.program.path or "", "")),
        )
        if listing.program
        else listing
        for listing in listed
    ]


def get_agent(project: Project, name: str) -> Agent:
    """An agent by its name, which may be mistyped."""
    names = agent_names(project.root)
    if name not in names:
        raise InputError(f"There is no agent {name!r}.{_near(name, names)}")
    return read_agent(project.root, name)


@hosted("write")
def resume(project: Project, name: str) -> bool:
    """Let a stopped agent be started again; False if it was not stopped."""
    names = agent_names(project.root)
    if not project.has_store:
        known, resumed = name in names, False
    else:
        with project.open_store() as store:
            resumed = resume_agent(store, name, now=time.time())
        known = resumed or name in names
    if not known:
        raise InputError(f"There is no agent {name!r}.{_near(name, names)}")
    return resumed


def explain_stopped(name: str, reason: str) -> str:
    """Name the cure for a stopped agent."""
    return (
        f"Agent {name} is stopped ({reason.rstrip('.')}). Repair that first; "
        f"`weft agents test {name}` tries it and lets it start again."
    )


def _use(project: Project, names: list[str]) -> dict[str, AgentUse]:
    if not project.has_store:
        return dict.fromkeys(names, AgentUse())
    with project.open_store() as store:
        return use_of_agents(store, names, now=time.time())


def _listed(project: Project, name: str, use: AgentUse) -> ListedAgent:
    try:
        agent = read_agent(project.root, name)
    except InputError as error:
        return ListedAgent(name=name, error=str(error), use=use)
    program = find_program(agent, project.root, project.environment)
    return ListedAgent(name=name, agent=agent, program=program, use=use)


def _near(name: str, names: list[str]) -> str:
    if not names:
        return " There are none here yet: `weft init` writes a useful set."
    from difflib import get_close_matches

    close = get_close_matches(name, names, n=1)
    return f" Did you mean {close[0]}?" if close else f" There are: {', '.join(names)}."
