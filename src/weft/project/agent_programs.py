"""The programs behind agents, looked up on the path that an attempt would use."""

from __future__ import annotations

import os
import re
import shutil
import sys
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct

from weft import git
from weft.agents.adapters import get_adapter
from weft.agents.agent import COMMAND, RECORDED, SCRIPTED, Agent
from weft.config import BoxKind, Config
from weft.errors import WeftError
from weft.process import Completed, run
from weft.process import box as boxes
from weft.process.box import Box
from weft.process.container_end import end_container
from weft.process.environment import build_environment
from weft.process.tool_chains import list_steps
from weft.project.boxes import describe_agent_box, describe_box, find_hidden

_SECONDS: Final = 15.0  # gemini and opencode need 1 or 2 s, 10 s on a busy machine
_ABSENT: Final = 44  # the status of `_FIND`, apart from those of shells and engines
_FIND: Final = f'command -v "$1" >/dev/null || exit {_ABSENT}'
# A link whose end is closed is no obstacle of its own.
_SHOW_CLOSED: Final = (
    'for step do (: <"$step") 2>/dev/null || [ -L "$step" ] || printf "%s\\0" "$step"; done'
)
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
    if agent.sandbox is BoxKind.CONTAINER:
        return Program(name=name, path=name, searched="in its image")
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


def explain_all_unreachable(
    programs: Iterable[tuple[Agent, Program]],
    config: Config,
    environment: Mapping[str, str],
    root: Path,
) -> Iterator[tuple[str, str]]:
    """Yield each agent whose box cannot start its program, such as `Agent a`, and the cure.

    A probe of weft's own runs in each box; the programs are not started.
    """
    common = git.common_directory(root)
    hidden = find_hidden(environment, common, [])
    for agent, program in programs:
        if agent.sandbox is BoxKind.OFF or program.path is None:
            continue
        variables = build_environment(environment, asked=(), given=agent.env_set)
        checks = describe_box(config, variables, common, hidden=hidden, checkout=root)
        wanted = describe_agent_box(agent, checks, config, variables, program.path, root)
        box, _ = boxes.choose(wanted, boxes.available(wanted.container))
        reason = ""
        if box.kind is BoxKind.CONTAINER:
            reason = _explain_image(box, program.name, variables)
        elif box.kind is not BoxKind.OFF and not Path(program.path).is_relative_to(root):
            reason = _explain_closed(box, agent, program.path, variables)
        if reason:
            yield f"Agent {agent.name}", reason


def _explain_image(box: Box, name: str, variables: Mapping[str, str]) -> str:
    assert box.container is not None
    if _probe(box, _FIND, [name], variables).status != _ABSENT:
        return ""
    return f"the image {box.container.image} has no {name}: install it there."


def _explain_closed(box: Box, agent: Agent, program: str, variables: Mapping[str, str]) -> str:
    steps = list_steps(program, variables.get("PATH", os.defpath))
    readable = [step for step in steps if os.access(step, os.R_OK)]
    done = _probe(box, _SHOW_CLOSED, readable, variables)
    closed = ", ".join(done.output.split("\0")[:-1])
    if done.status != 0 or not closed:
        return ""
    return (
        f"its box does not show {closed}, which {program} needs. Write `sandbox: {{read: "
        f"[{closed}]}}` in {agent.file}, or add the path to `read` under [sandbox] of weft.toml."
    )


def _probe(box: Box, script: str, words: list[str], variables: Mapping[str, str]) -> Completed:
    name = f"weft-probe-{uuid.uuid4().hex}"
    command = ["sh", "-c", script, "sh", *words]
    argv, given = boxes.enclose(box, command, variables, cwd=Path("/"), name=name)
    try:
        return run(argv, directory=Path("/"), environment=given)
    except WeftError as error:
        end_container(boxes.remove_command(box, name), given)
        return Completed(status=-1, output="", errors=str(error))


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
        {
            program.path
            for agent, program in agents
            if program.path
            and agent.runs not in (COMMAND, SCRIPTED, RECORDED)
            and agent.sandbox is not BoxKind.CONTAINER
        }
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
