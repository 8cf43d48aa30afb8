"""The boxes of a repository's programs: the paths that each may read and write.

An agent writes its workspace, a git directory of its own, temporary files and the directories of
its own program. A check writes its workspace and temporary files. Both read the system, tool
chains, the shared parts of the repository's git directory, and the paths that agent files and
[sandbox] name. Nothing else of home, the checkout and weft's own files exists for them.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

import weft
from weft.agents import program_files
from weft.agents.adapters import ADAPTERS, get_adapter
from weft.agents.agent import Agent
from weft.config import BoxKind, Config, SandboxSettings
from weft.process import box as boxes
from weft.process.agent_process import Spawn
from weft.process.box import Box, Container
from weft.process.tool_chains import find_tool_chains
from weft.workspace import Workspace, quarantine

_PYTHON: Final = (Path(sys.prefix), Path(sys.base_prefix), Path(weft.__file__).parent)


def find_container(settings: SandboxSettings, image: str = "") -> Container | None:
    """Return the container that the settings describe, if they name an image."""
    name = image or settings.image
    if not name:
        return None
    engine = settings.engine or (next(filter(shutil.which, ("podman", "docker")), "podman"),)
    return Container(engine=tuple(engine), image=name, options=settings.options)


def describe_box(
    config: Config,
    environment: Mapping[str, str],
    common: Path,
    *,
    hidden: tuple[Path, ...],
    checkout: Path,
) -> Box:
    """Return the box of checks, set-up and teardown; their workspace adds what they write."""
    links = tuple(checkout / name.rstrip("/") for name in config.workspace.link)
    named = program_files.expand(config.sandbox.read, environment)
    written = program_files.expand(config.sandbox.write, environment)
    return Box(
        kind=config.gate.sandbox,
        writable=tuple(map(Path, written)),
        readable=(
            *find_tool_chains(environment, more=links),
            *_PYTHON,
            *(common / name for name in quarantine.SHARED),
            *links,
            *map(Path, named),
        ),
        hidden=hidden,
        network=config.gate.network,
        memory=_memory(),
        container=find_container(config.sandbox),
    )


def enter_agent_box(
    spawn: Spawn, agent: Agent, of_commands: Box, able: boxes.Able, config: Config, place: Workspace
) -> tuple[Spawn, tuple[str, ...]]:
    """Put a spawn into the box that its agent file asks for; report where the box falls short.

    `of_commands` is the box of the repository's checks.
    """
    variables = spawn.environment
    facts = get_adapter(agent).FACTS
    own = program_files.find_all(facts.directories, variables)
    if facts.home is not None:
        own += program_files.find_all([facts.home.place], {**variables, **agent.env_set})
    files = program_files.find_all(facts.files, variables)
    named = program_files.expand(agent.write, variables)
    opened = program_files.expand(agent.read, variables)
    shown = [Path(path) for path in (*own, *files, *named, *opened)]
    wanted = replace(
        of_commands,
        kind=agent.sandbox,
        writable=(*of_commands.writable, *map(Path, (*own, *named, *files))),
        readable=(
            *of_commands.readable,
            *find_tool_chains(variables, [spawn.argv[0]]),
            spawn.directory,
            *map(Path, opened),
            # Scripts that the agent file names. Words of a prompt open nothing.
            *(Path(word) for word in agent.command if word.startswith("/")),
        ),
        hidden=tuple(
            path for path in of_commands.hidden if not any(map(path.is_relative_to, shown))
        ),
        network=agent.network,
        memory=agent.memory or of_commands.memory,
        processes=agent.pids or of_commands.processes,
        container=find_container(config.sandbox, agent.image),
    )
    chosen, warning = boxes.choose(wanted, able)
    warnings = (warning,) if warning else ()
    if chosen.kind is BoxKind.OFF:
        return spawn, warnings
    if chosen.kind is not BoxKind.CONTAINER:
        warnings = (*warnings, *_make([*own, *named]))
    return enter_box(spawn, chosen, place), warnings


def enter_box(spawn: Spawn, box: Box, place: Workspace) -> Spawn:
    """Put a spawn into a box that writes its workspace."""
    if box.kind is BoxKind.OFF:
        return spawn
    box = place.slot.open_box(box)
    name = f"weft-{spawn.marker}-{spawn.directory.name}"
    argv, variables = boxes.enclose(box, spawn.argv, spawn.environment, cwd=spawn.cwd, name=name)
    undo = boxes.remove_command(box, name)
    scoped = boxes.is_scoped(box)
    return replace(spawn, argv=argv, environment=variables, scoped=scoped, undo=undo)


def find_hidden(
    environment: Mapping[str, str], common: Path, store_files: list[Path]
) -> tuple[Path, ...]:
    """List the places in home and in the repository that no box shows, unless a file opens them."""
    programs = [adapter.FACTS for adapter in ADAPTERS.values()]
    theirs = [place for facts in programs for place in (*facts.directories, *facts.files)]
    secret = program_files.find_all((*program_files.CREDENTIALS, *theirs), environment)
    token = environment.get("WEFT_TOKEN_FILE", "")
    named = [token] if token.startswith("/") else []
    return tuple(dict.fromkeys([common, *store_files, *map(Path, (*secret, *named))]))


def _memory() -> int:
    """Return the memory of this machine: no single program needs more."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _make(directories: list[str]) -> Iterator[str]:
    """Make an agent's directories: a box can open only directories that exist."""
    for path in directories:
        if not os.path.exists(path):
            try:
                os.makedirs(path, mode=0o700, exist_ok=True)
            except OSError as error:
                yield f"The agent cannot write to {path}, which cannot be made: {error.strerror}."
