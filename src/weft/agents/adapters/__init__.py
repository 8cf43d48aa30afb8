"""A module for each kind of program, behind a Protocol and a dictionary.

An adapter only translates: an agent and its prompt into a `Launch`, a line of output into events.
The memory of a reader from line to line is a value, `ReaderState`, that goes in and comes out.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from weft.agents.adapters import (
    claude,
    codex,
    command_adapter,
    gemini,
    opencode,
    recorded_adapter,
    scripted_adapter,
)
from weft.agents.adapters.adapter import Adapter
from weft.agents.agent import COMMAND, Agent

ADAPTERS: Final[Mapping[str, Adapter]] = MappingProxyType(
    {
        "claude": claude,
        "codex": codex,
        "opencode": opencode,
        "gemini": gemini,
        "scripted": scripted_adapter,
        "recorded": recorded_adapter,
        COMMAND: command_adapter,
    }
)


def get_adapter(agent: Agent) -> Adapter:
    return ADAPTERS[agent.runs]


def find_provider(agent: Agent) -> str | None:
    """Return the provider that an agent's program asks; None if it talks to no known model."""
    if agent.provider:
        return agent.provider
    program = agent.command[0].rpartition("/")[2] if agent.command else agent.runs
    facts = ADAPTERS.get(program, command_adapter).FACTS
    named, slash, _ = (agent.model or "").partition("/")
    is_named = facts.names_provider and slash and named.replace("-", "").isalnum()
    return (named if is_named else facts.provider) or None
