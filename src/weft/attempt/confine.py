"""What an agent in a sandbox may write: its work, temporary files, and what is its own program's.

Nobody else's settings: a line in git's or a shell's would be the user's to run. Carrying it out
is left to `process.sandbox`, what a program calls its own to its adapter.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from weft.agents import places
from weft.agents.adapters import adapter_of
from weft.agents.agent import Agent
from weft.attempt.site import Site
from weft.process import sandbox
from weft.process.agent import Spawn
from weft.workspace import Workspace


def confine(
    site: Site, agent: Agent, spawn: Spawn, prepared: Workspace
) -> tuple[Spawn, tuple[str, ...]]:
    """The same spawn in the sandbox its agent file asks for, and where that falls short of it."""
    facts = adapter_of(agent).FACTS
    variables = spawn.environment
    own = places.find_all(facts.directories, variables) + places.expand(agent.write, variables)
    wanted = sandbox.Sandbox(
        kind=sandbox.Kind(agent.sandbox),
        writable=(
            prepared.path,
            prepared.admin,
            prepared.common / "objects",
            *_branch_places(prepared),
            Path(variables.get("TMPDIR") or "/tmp"),  # noqa: S108 - where programs put it
            *map(Path, own),
            *map(Path, places.find_all(facts.files, variables)),
        ),
        network=sandbox.Network.OPEN if agent.network else sandbox.Network.NONE,
    )
    chosen, warning = sandbox.choose(wanted, site.able)
    warnings = (warning,) if warning else ()
    if chosen.kind is not sandbox.Kind.OFF:
        warnings = (*warnings, *_make(own))
    return sandbox.apply(chosen, spawn), warnings


def _make(directories: list[str]) -> Iterator[str]:
    """Only what is there can be opened, and where it is to be made the agent may not make it."""
    for path in directories:
        if not os.path.exists(path):
            try:
                os.makedirs(path, mode=0o700, exist_ok=True)
            except OSError as error:
                yield f"The agent cannot write to {path}, which cannot be made: {error.strerror}."


def _branch_places(prepared: Workspace) -> list[Path]:
    """Where git keeps the attempt's branch and its log, so that the agent can commit; they hold
    nothing but attempts of the same task."""
    where = [prepared.common / part / os.path.dirname(prepared.branch) for part in (".", "logs")]
    for place in where:
        place.mkdir(parents=True, exist_ok=True)
    return where
