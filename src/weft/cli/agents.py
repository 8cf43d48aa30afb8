"""`weft agents`, and what can be done with one: one file per command."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import click

from weft.agents.agent import MODEL_PROGRAMS, SandboxSettings
from weft.cli.command_group import CommandGroup, CommandTable
from weft.cli.output import json_option, print_json, print_table, say
from weft.project.agent_list import (
    WITHOUT_SANDBOX,
    ListedAgent,
    explain_stopped,
    resume,
    survey_agents,
)
from weft.project.project import get_project
from weft.swarm.identity import LOCAL
from weft.swarm.membership import list_members
from weft.swarm.swarm_records import Member

COMMANDS: Final[CommandTable] = {
    "test": ("weft.cli.agents_test", "Have an agent do one trivial task, and explain a failure."),
}


@click.group(name="agents", cls=CommandGroup, table=COMMANDS, invoke_without_command=True)
@json_option
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """List agents and members of the swarm; test or resume an agent.

    An agent is a file in .weft/agents. Shown are the program it runs and whether that is
    installed, how many of it run now, in all processes together, and how many may. Members of
    the swarm are agents that joined by themselves, over HTTP or MCP.
    """
    if ctx.invoked_subcommand is not None:
        return
    directory: Path = ctx.obj
    found = get_project(directory, os.environ)
    listed, members = survey_agents(found), []
    if found.has_store:
        with found.open_store() as store:
            members = list_members(store, LOCAL, now=time.time())
    if as_json:
        told = [_as_json(one) for one in listed]
        print_json({"agents": told, "members": [_member_as_json(one) for one in members]})
        return
    if not listed:
        click.echo("There are no agents here yet: `weft init` writes a useful set.")
    else:
        print_table(
            ("AGENT", "RUNS", "STAGE", "PROVIDER", "SANDBOX", "RUNNING", "DESCRIPTION"),
            [_row(one) for one in listed],
        )
    for line in troubles(listed):
        say(line)
    if members:
        click.echo()
        print_table(
            ("MEMBER", "NAME", "ROLE", "CAN DO", "TASKS", "STATUS"),
            [_member_row(one) for one in members],
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
    if as_json:
        print_json({"agent": name, "resumed": resumed})
    else:
        say(f"{name} can be started again." if resumed else f"{name} was not stopped.")


def troubles(listed: Sequence[ListedAgent]) -> list[str]:
    """What keeps agents from running, and what to do about it."""
    missing: dict[str, list[str]] = {}
    for one in listed:
        if one.program and one.program.path is None:
            told = f"{one.program.name} is not installed: weft looked for it {one.program.searched}"
            missing.setdefault(told, []).append(one.name)
    return [
        *(one.error for one in listed if one.error),
        *(f"{told} (for {', '.join(names)})." for told, names in missing.items()),
        *(explain_stopped(one.name, one.use.stopped) for one in listed if one.use.stopped),
        *_without_sandbox(listed),
    ]


def _without_sandbox(listed: Sequence[ListedAgent]) -> Iterator[str]:
    names = [
        listing.name
        for listing in listed
        if listing.agent
        and listing.agent.runs in MODEL_PROGRAMS
        and listing.sandbox == SandboxSettings.OFF
    ]
    if names:
        yield f"WARNING: {WITHOUT_SANDBOX} ({', '.join(names)}). docs/safety.md tells more."


def _row(one: ListedAgent) -> tuple[str, ...]:
    of = "" if one.limit is None else f" of {one.limit}"
    running = f"{one.use.running}{of}"
    if one.agent is None:
        return (one.name, "broken", "", "", "", running, "")
    assert one.program is not None
    installed = one.program.version if one.program.path else "(not installed)"
    return (
        one.name,
        f"{one.program.name} {installed}".rstrip(),
        one.agent.stage or "",
        one.agent.provider or "",
        "OFF" if one.sandbox == SandboxSettings.OFF else one.sandbox,
        "stopped" if one.use.stopped is not None else running,
        one.agent.description,
    )


def _member_row(one: Member) -> tuple[str, ...]:
    role = ", ".join(word for word in ("lead" if one.is_lead else "", one.role) if word)
    tasks = f"{one.capacity.current} of {one.capacity.max}"
    return (one.id, one.name, role, ", ".join(one.capabilities), tasks, one.status)


def _member_as_json(one: Member) -> dict[str, Any]:
    return {
        "id": one.id,
        "name": one.name,
        "is_lead": one.is_lead,
        "role": one.role,
        "capabilities": list(one.capabilities),
        "tenant": one.tenant,
        "capacity": {
            "current": one.capacity.current,
            "max": one.capacity.max,
            "available": one.capacity.available,
        },
        "status": one.status,
    }


def _as_json(one: ListedAgent) -> dict[str, Any]:
    agent, program = one.agent, one.program
    return {
        "name": one.name,
        "description": agent.description if agent else None,
        "runs": agent.runs if agent else None,
        "program": program.name if program else None,
        "installed": program.path if program else None,
        "version": (program.version or None) if program else None,
        "stage": agent.stage if agent else None,
        "provider": agent.provider if agent else None,
        "sandbox": one.sandbox or None,
        "running": one.use.running,
        "limit": one.limit,
        "stopped": one.use.stopped,
        "error": one.error or None,
    }
