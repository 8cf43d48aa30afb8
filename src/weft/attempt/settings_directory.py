"""A program's settings directory for one attempt: weft's settings, and links to the user's other
files.

Logins, sessions and caches stay the user's own. weft writes nothing into the user's settings.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from weft.agents import program_files
from weft.agents.adapters.adapter import Facts
from weft.agents.agent import Agent

NAME: Final = "home"  # in the attempt's directory; adapters put files into it
_LARGEST: Final = 1 << 20


def read_settings(agent: Agent, facts: Facts, environment: Mapping[str, str]) -> bytes:
    """Read the user's settings of a program, if weft has to complete them."""
    own = find_own(agent, facts, environment)
    if own is None or facts.home is None:
        return b""
    try:
        with (own / facts.home.settings).open("rb") as file:
            return file.read(_LARGEST)
    except OSError:
        return b""


def lay_out(
    agent: Agent, facts: Facts, environment: Mapping[str, str], directory: Path
) -> dict[str, str]:
    """Fill the attempt's settings directory; return the variable that leads the program there."""
    if facts.home is None:
        return {}
    made = directory / NAME / facts.home.place.name
    own = find_own(agent, facts, environment)
    if own is not None:
        with suppress(OSError):  # an unwritable home: the program reports that itself
            for name in facts.home.shared:
                (own / name).mkdir(parents=True, exist_ok=True, mode=0o700)
        for name in os.listdir(own) if own.is_dir() else ():
            with suppress(FileExistsError):
                (made / name).symlink_to(own / name)
    return {facts.home.place.variable: str(directory / NAME)}


def find_own(agent: Agent, facts: Facts, environment: Mapping[str, str]) -> Path | None:
    """Return the user's settings directory of a program that gets a separate directory in each
    attempt."""
    if facts.home is None:
        return None
    paths = program_files.find_all([facts.home.place], {**environment, **agent.env_set})
    return Path(paths[0]) if paths else None
