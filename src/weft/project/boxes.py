"""The boxes of a repository's programs: the paths that each may read and write.

An agent writes its workspace, a git directory of its own, temporary files and the directories of
its own program. A check writes its workspace and temporary files. Both read the system, tool
chains, the shared parts of the repository's git directory, and the paths that agent files and
[sandbox] name. Nothing else of home, the checkout and weft's own files exists for them.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import weft
from weft.agents import program_files
from weft.agents.adapters import ADAPTERS, get_adapter
from weft.agents.agent import Agent
from weft.config import BoxKind, Config, SandboxSettings
from weft.errors import InputError
from weft.process import box as boxes
from weft.process.agent_process import Spawn
from weft.process.box import Box, Container
from weft.process.tool_chains import find_tool_chains
from weft.workspace import Workspace, quarantine

DEVCONTAINER: Final = "devcontainer.json"
_WITHOUT_EFFECT: Final = ("name", "$schema", "customizations")  # for people and editors
_STRING: Final = r'("(?:[^"\\]|\\.)*")'
_COMMENTS: Final = re.compile(rf"{_STRING}|//[^\n]*|/\*.*?\*/", re.DOTALL)
_TRAILING: Final = re.compile(rf"{_STRING}|,(\s*[}}\]])")
_PYTHON: Final = (Path(sys.prefix), Path(sys.base_prefix), Path(weft.__file__).parent)


def find_container(settings: SandboxSettings, root: Path, image: str = "") -> Container | None:
    """Return the container that the settings describe, if they name an image.

    Instead of an image they may name a devcontainer.json of the checkout at `root`.
    """
    name = image or settings.image
    if not name:
        return None
    variables: Mapping[str, str] = {}
    if not image and name.endswith(DEVCONTAINER):
        name, variables = read_devcontainer(root / name)
    engine = settings.engine or (next(filter(shutil.which, ("podman", "docker")), "podman"),)
    return Container(
        engine=tuple(engine),
        image=name,
        options=settings.options,
        variables=tuple(variables.items()),
    )


def read_devcontainer(path: Path) -> tuple[str, Mapping[str, str]]:
    """Read `image` and `containerEnv`; raise for each key that asks for more."""
    try:
        # JSON with comments and trailing commas; group 1 keeps texts as they are.
        text = _COMMENTS.sub(r"\1", path.read_text(encoding="utf-8"))
        table: Any = json.loads(_TRAILING.sub(r"\1\2", text))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path} cannot be read: {error}.") from error
    if not isinstance(table, dict):
        raise InputError(f"{path} must be an object.")
    more = [key for key in table if key not in ("image", "containerEnv", *_WITHOUT_EFFECT)]
    if more:
        raise InputError(
            f"{path} asks for {', '.join(more)}, which weft does not carry out; build an image "
            "that has it, and name the image under [sandbox]."
        )
    image: Any = table.get("image")
    variables: Any = table.get("containerEnv", {})
    texts = [image, *variables.values()] if isinstance(variables, dict) else [None]
    if not all(isinstance(value, str) and value and "${" not in value for value in texts):
        raise InputError(f"{path} needs an `image`; `containerEnv` has texts without `${{…}}`.")
    return image, variables


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
            *find_tool_chains(environment, more=links, hidden=hidden),
            *_PYTHON,
            *(common / name for name in quarantine.SHARED),
            *links,
            *map(Path, named),
        ),
        hidden=hidden,
        network=config.gate.network,
        memory=_memory(),
        container=find_container(config.sandbox, checkout),
    )


def enter_agent_box(
    spawn: Spawn, agent: Agent, of_commands: Box, able: boxes.Able, config: Config, place: Workspace
) -> tuple[Spawn, tuple[str, ...]]:
    """Put a spawn into the box that its agent file asks for; report where the box falls short.

    `of_commands` is the box of the repository's checks.
    """
    variables, named = spawn.environment, spawn.argv[0]
    wanted = describe_agent_box(agent, of_commands, config, variables, named, place.path)
    chosen, warning = boxes.choose(
        replace(wanted, readable=(*wanted.readable, spawn.directory)), able
    )
    warnings = (warning,) if warning else ()
    if chosen.kind is BoxKind.OFF:
        return spawn, warnings
    if chosen.kind is not BoxKind.CONTAINER:
        written = program_files.expand(agent.write, variables)
        warnings = (*warnings, *_make([*_own_directories(agent, variables), *written]))
    return enter_box(spawn, chosen, place), warnings


def describe_agent_box(
    agent: Agent,
    of_commands: Box,
    config: Config,
    variables: Mapping[str, str],
    program: str,
    checkout: Path,
) -> Box:
    """Return the box that an agent file asks for; its workspace adds what it writes."""
    own = _own_directories(agent, variables)
    files = program_files.find_all(get_adapter(agent).FACTS.files, variables)
    named = program_files.expand(agent.write, variables)
    opened = program_files.expand(agent.read, variables)
    shown = [Path(path) for path in (*own, *files, *named, *opened)]
    return replace(
        of_commands,
        kind=agent.sandbox,
        writable=(*of_commands.writable, *map(Path, (*own, *named, *files))),
        readable=(
            *of_commands.readable,
            *find_tool_chains(variables, [program], hidden=of_commands.hidden),
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
        container=find_container(config.sandbox, checkout, agent.image)
        if agent.image
        else of_commands.container,
    )


def _own_directories(agent: Agent, variables: Mapping[str, str]) -> list[str]:
    """List the directories of an agent's own program."""
    facts = get_adapter(agent).FACTS
    own = program_files.find_all(facts.directories, variables)
    if facts.home is not None:
        own += program_files.find_all([facts.home.place], {**variables, **agent.env_set})
    return own


def enter_box(spawn: Spawn, box: Box, place: Workspace) -> Spawn:
    """Put a spawn into a box that writes its workspace."""
    if box.kind is BoxKind.OFF:
        return spawn
    box = place.slot.open_box(box)
    name = f"weft-{spawn.marker}-{spawn.directory.name}"
    argv, variables = boxes.enclose(box, spawn.argv, spawn.environment, cwd=spawn.cwd, name=name)
    return replace(
        spawn,
        argv=argv,
        environment=variables,
        memory=box.memory,
        processes=box.processes,
        scoped=boxes.is_scoped(box),
        undo=boxes.remove_command(box, name),
    )


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
