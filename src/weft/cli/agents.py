"""`weft agents`, and what can be done with one: one file per command."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from socket import gethostname
from typing import Any, Final

import click
from msgspec.structs import asdict, replace

from weft.agents.agent import MODEL_PROGRAMS
from weft.cli.command_group import CommandGroup, CommandTable
from weft.cli.output import json_option, print_json, print_table, say, show
from weft.config import BoxKind
from weft.operations.identity import LOCAL
from weft.operations.member_records import Member
from weft.operations.membership import list_members
from weft.project.agent_list import (
    WITHOUT_SANDBOX,
    ListedAgent,
    explain_stopped,
    resume,
    survey_agents,
)
from weft.project.host_agents import NO_PROGRAM
from weft.project.project import get_project
from weft.runs.host_list import HostStatus, list_lacks, read_hosts

COMMANDS: Final[CommandTable] = {
    "test": ("agents_test", "Have an agent do one trivial task, and explain a failure."),
}


@click.group(name="agents", cls=CommandGroup, table=COMMANDS, invoke_without_command=True)
@json_option
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """List agents and members of the swarm; test or resume an agent.

    An agent is a file in .weft/agents. Shown are the program it runs and whether that is
    installed, how many of it run now, in all processes together, and how many may. Then, for
    each host with workers, the programs, variables and sandboxes that agents lack there. Members
    of the swarm are agents that joined by themselves, over HTTP or MCP.
    """
    if ctx.invoked_subcommand is not None:
        return
    directory: Path = ctx.obj
    project = get_project(directory, os.environ)
    listed, members = survey_agents(project), []
    hosts: list[HostStatus] = []
    if project.has_store:
        with project.open_store() as store:
            members = list_members(store, LOCAL, now=time.time())
            hosts = read_hosts(store, now=time.time())
    if as_json:
        print_json(
            {
                "agents": [_as_json(agent) for agent in listed],
                "members": [_member_as_json(member) for member in members],
                "hosts": [{"host": status.host, "lacks": status.lacks} for status in hosts],
            }
        )
        return
    if not listed:
        click.echo("There are no agents here yet: `weft init` writes a useful set.")
    else:
        print_table(
            ("AGENT", "RUNS", "STAGE", "SANDBOX", "RUNNING", "DESCRIPTION"),
            [_row(agent) for agent in listed],
        )
    for line in (*troubles(listed), *list_lacks(map(_leave_out_programs, hosts))):
        say(line)
    if members:
        click.echo()
        print_table(
            ("MEMBER", "NAME", "ROLE", "CAN DO", "TASKS", "STATUS"),
            [_member_row(member) for member in members],
        )


@command.command(name="resume")
@click.argument("name")
@json_option
@click.pass_obj
def resume_command(directory: Path, name: str, as_json: bool) -> None:
    """Let a stopped agent be started again.

    weft stops an agent, in all processes, when its program is not logged in or is set up wrongly:
    every task would fail the same way. Repair that first; `weft agents test NAME` tries the agent,
    and resumes it if it works.
    """
    resumed = resume(get_project(directory, os.environ), name)
    text = f"{name} can be started again." if resumed else f"{name} was not stopped."
    show({"agent": name, "resumed": resumed}, [text], as_json=as_json)


def troubles(listed: Sequence[ListedAgent]) -> list[str]:
    """Say which agents cannot run, and the command or edit that helps."""
    missing: dict[str, list[str]] = {}
    for agent in listed:
        if (program := agent.program) and program.path is None:
            text = f"{program.name} is not installed: weft looked for it {program.searched}"
            missing.setdefault(text, []).append(agent.name)
    return [
        *(agent.error for agent in listed if agent.error),
        *(f"{text} (for {', '.join(names)})." for text, names in missing.items()),
        *(explain_stopped(agent.name, agent.use.stopped) for agent in listed if agent.use.stopped),
        *_without_sandbox(listed),
    ]


def _leave_out_programs(status: HostStatus) -> HostStatus:
    """Leave out the programs that this host lacks: `troubles` names them."""
    if status.host != gethostname():
        return status
    lacks = {name: lack for name, lack in status.lacks.items() if not lack.endswith(NO_PROGRAM)}
    return replace(status, lacks=lacks)


def _without_sandbox(listed: Sequence[ListedAgent]) -> Iterator[str]:
    names = [
        listing.name
        for listing in listed
        if listing.agent and listing.agent.runs in MODEL_PROGRAMS and listing.sandbox == BoxKind.OFF
    ]
    if names:
        yield f"WARNING: {WITHOUT_SANDBOX} ({', '.join(names)}). docs/safety.md tells more."


def _row(listed: ListedAgent) -> tuple[str, ...]:
    of = "" if listed.limit is None else f" of {listed.limit}"
    running = f"{listed.use.running}{of}"
    if listed.agent is None:
        return (listed.name, "broken", "", "", running, "")
    assert listed.program is not None
    installed = listed.program.version if listed.program.path else "(not installed)"
    return (
        listed.name,
        f"{listed.program.name} {installed}".rstrip(),
        listed.agent.stage or "",
        "OFF" if listed.sandbox == BoxKind.OFF else listed.sandbox,
        "stopped" if listed.use.stopped is not None else running,
        listed.agent.description,
    )


def _member_row(member: Member) -> tuple[str, ...]:
    role = ", ".join(word for word in ("lead" if member.is_lead else "", member.role) if word)
    tasks = f"{member.capacity.current} of {member.capacity.max}"
    return (member.id, member.name, role, ", ".join(member.capabilities), tasks, member.status)


def _member_as_json(member: Member) -> dict[str, Any]:
    fields = ("id", "name", "is_lead", "role", "capabilities", "status")
    capacity = {**asdict(member.capacity), "available": member.capacity.available}
    return {**{name: getattr(member, name) for name in fields}, "capacity": capacity}


def _as_json(listed: ListedAgent) -> dict[str, Any]:
    agent, program = listed.agent, listed.program
    return {
        "name": listed.name,
        "description": agent.description if agent else None,
        "runs": agent.runs if agent else None,
        "program": program.name if program else None,
        "installed": program.path if program else None,
        "version": (program.version or None) if program else None,
        "stage": agent.stage if agent else None,
        "provider": agent.provider if agent else None,
        "sandbox": listed.sandbox or None,
        "running": listed.use.running,
        "limit": listed.limit,
        "stopped": listed.use.stopped,
        "error": listed.error or None,
    }
