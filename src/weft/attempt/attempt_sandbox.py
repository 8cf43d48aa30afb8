"""The sandbox of one attempt: the paths that its agent may write and read.

The agent writes its workspace, a git directory of its own, temporary files, and the directories of
its own program. It never writes settings of git or of a shell: the user would run commands from
there. It reads everything except the hidden paths: weft's own files, the repository's git directory
(but for objects and hooks), keys, passwords, browsers, and other agents' directories.
`process.sandbox` enforces this.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from weft.agents import program_files
from weft.agents.adapters import ADAPTERS, get_adapter
from weft.agents.agent import Agent
from weft.attempt.settings_directory import find_own
from weft.attempt.user_checkout import store_files
from weft.process import sandbox
from weft.process.agent_process import Spawn
from weft.project.site import Site
from weft.workspace import Workspace, quarantine

_TOKEN_FILE_VARIABLE = "WEFT_TOKEN_FILE"  # noqa: S105 - names a file
_SOCKETS = ("/run/docker.sock", "/run/podman/podman.sock", "/run/containerd/containerd.sock")


def confine(
    site: Site, agent: Agent, spawn: Spawn, prepared: Workspace
) -> tuple[Spawn, tuple[str, ...]]:
    """Put a spawn into the sandbox that its agent file asks for; report where the sandbox falls
    short."""
    wanted = sandbox.Sandbox(
        kind=sandbox.SandboxKind(agent.sandbox),
        writable=(),
        network=sandbox.Network.OPEN if agent.network else sandbox.Network.NONE,
    )
    chosen, warning = sandbox.choose(wanted, site.able)
    warnings = (warning,) if warning else ()
    if chosen.kind is sandbox.SandboxKind.OFF:
        return spawn, warnings
    variables = spawn.environment
    facts = get_adapter(agent).FACTS
    own = program_files.find_all(facts.directories, variables)
    if users := find_own(agent, facts, site.environment):
        own.append(str(users))
    named = program_files.expand(agent.write, variables)
    files = program_files.find_all(facts.files, variables)
    opened = [*named, *program_files.expand(agent.read, variables)]
    hidden = _hidden(site, variables, opened=opened, own=[*own, *files])
    warnings = (*warnings, *_make([*own, *named]))
    spawn, temporary = _temporary(spawn, hidden)
    common = prepared.common
    fenced = replace(
        chosen,
        writable=(
            prepared.path,
            quarantine.make_quarantine(prepared),
            temporary,
            *map(Path, (*own, *named, *files)),
        ),
        hidden=hidden,
        readable=(
            *(common / name for name in quarantine.SHARED),
            spawn.directory,
            *map(Path, opened),
        ),
    )
    return sandbox.apply(fenced, spawn), warnings


def _hidden(
    site: Site, variables: Mapping[str, str], *, opened: list[str], own: list[str]
) -> tuple[Path, ...]:
    secret: dict[str, None] = {str(site.common): None}
    secret |= dict.fromkeys(map(str, store_files(site.store)))
    secret |= dict.fromkeys(_SOCKETS)
    secret |= {f"/run/user/{os.getuid()}": None}
    token = site.environment.get(_TOKEN_FILE_VARIABLE, "")
    secret |= {token: None} if token.startswith("/") else {}
    programs = [adapter.FACTS for adapter in ADAPTERS.values()]
    theirs = [place for facts in programs for place in (*facts.directories, *facts.files)]
    for environment in (site.environment, variables):  # an agent file may set another home
        secret |= dict.fromkeys(
            program_files.find_all((*program_files.CREDENTIALS, *theirs), environment)
        )
    shown = [Path(path) for path in (*opened, *own)]
    return tuple(
        path for path in map(Path, secret) if not any(path.is_relative_to(open_) for open_ in shown)
    )


def _temporary(spawn: Spawn, hidden: tuple[Path, ...]) -> tuple[Spawn, Path]:
    """Return the directory for temporary files: the attempt's own if the usual directory holds
    secrets."""
    usual = Path(spawn.environment.get("TMPDIR") or "/tmp").resolve()  # noqa: S108
    if not any(place.resolve().is_relative_to(usual) for place in hidden):
        return spawn, usual
    own = spawn.directory / "tmp"
    own.mkdir(mode=0o700, exist_ok=True)
    return replace(spawn, environment={**spawn.environment, "TMPDIR": str(own)}), own


def _make(directories: list[str]) -> Iterator[str]:
    """Make an agent's directories: a sandbox can open only directories that exist."""
    for path in directories:
        if not os.path.exists(path):
            try:
                os.makedirs(path, mode=0o700, exist_ok=True)
            except OSError as error:
                yield f"The agent cannot write to {path}, which cannot be made: {error.strerror}."
