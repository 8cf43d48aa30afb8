"""The programs behind agents, looked up on the path that an attempt would use."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct

from weft.agents.adapters import get_adapter
from weft.agents.agent import COMMAND, RECORDED, SCRIPTED, Agent
from weft.errors import WeftError
from weft.process import run
from weft.process.environment import build_environment

_SECONDS: Final = 15.0  # gemini and opencode need 1 or 2 s, 10 s on a busy machine
_VERSION: Final = re.compile(r"[0-9]+(?:\.[0-9]+)+[-+.\w]*")


class Program(Struct, frozen=True, kw_only=True):
    name: str  # as the adapter or the agent file calls it
    path: str | None  # where it is; None: it was not found
    searched: str  # how it was looked for, for people
    directories: str = ""  # and where, if it was on a PATH
    version: str = ""


def find_program(agent: Agent, root: Path, environment: Mapping[str, str]) -> Program:
    """The program an agent runs; `environment` is the user's, `root` their checkout."""
    if agent.runs in (SCRIPTED, RECORDED):
        return Program(name=agent.runs, path=sys.executable, searched="in weft itself")
    name = agent.command[0] if agent.runs == COMMAND else get_adapter(agent).FACTS.program
    if "/" in name:
        # A relative path starts in the workspace, which holds the committed files.
        path = shutil.which(str(root / name))
        return Program(name=name, path=path, searched=f"at {root / name}")
    directories = agent.env_set.get("PATH") or environment.get("PATH") or os.defpath
    path = shutil.which(name, path=directories)
    return Program(name=name, path=path, searched="on your PATH", directories=directories)


def explain_missing(agent: Agent, program: Program) -> str:
    """Name the cure for a missing program."""
    return _explain(program, [agent])


def explain_all_missing(programs: Iterable[tuple[Agent, Program]]) -> Iterator[tuple[str, str]]:
    """Yield each missing program once: its agents, such as `Agents a, b`, and the cure."""
    missing: dict[Program, list[Agent]] = {}
    for agent, program in programs:
        if program.path is None:
            missing.setdefault(program, []).append(agent)
    for program, agents in missing.items():
        names = ", ".join(agent.name for agent in agents)
        yield f"Agent{'s' * (len(agents) > 1)} {names}", _explain(program, agents)


def _explain(program: Program, agents: Collection[Agent]) -> str:
    files = ", ".join(str(agent.file) for agent in agents)
    return (
        f"{program.name} is not installed: weft looked for it {program.searched}. "
        f"Install it, or choose another program with `runs:` in {files}."
    )


def versions(
    agents: Collection[tuple[Agent, Program]],
    environment: Mapping[str, str],
    seconds: float = _SECONDS,
) -> dict[str, str]:
    """Ask the programs that weft knows for their versions; return the versions by path.

    A program that does not answer in time is left out. The user's own commands are never
    started, because their effect is unknown.
    """
    paths = sorted(
        {p.path for a, p in agents if p.path and a.runs not in (COMMAND, SCRIPTED, RECORDED)}
    )
    if not paths:
        return {}
    from concurrent.futures import ThreadPoolExecutor  # late: most machines have few of them

    variables = build_environment(environment, asked=(), given={})
    with ThreadPoolExecutor(len(paths)) as threads:
        answers = threads.map(lambda path: _version(path, variables, seconds), paths)
        return {path: version for path, version in zip(paths, answers, strict=True) if version}


def _version(path: str, variables: Mapping[str, str], seconds: float) -> str:
    try:
        done = run([path, "--version"], directory=Path("/"), environment=variables, seconds=seconds)
    except (WeftError, OSError):
        return ""
    match = _VERSION.search(done.output)
    return match[0] if match and done.status == 0 else ""
