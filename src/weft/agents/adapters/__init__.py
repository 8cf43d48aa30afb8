"""One module for each kind of program, behind one Protocol and one dictionary.

An adapter translates and nothing else: an agent and its prompt into what must be started, one
line of output into events. What a reader must remember from line to line is a value, `Reading`,
that goes in and comes out.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from weft.agents.adapters import claude, codex, command_adapter, gemini, opencode, scripted_adapter
from weft.agents.adapters.base import Adapter
from weft.agents.agent import COMMAND, Agent

ADAPTERS: Final[Mapping[str, Adapter]] = MappingProxyType(
    {
        "claude": claude,
        "codex": codex,
        "opencode": opencode,
        "gemini": gemini,
        "scripted": scripted_adapter,
        COMMAND: command_adapter,
    }
)


def adapter_of(agent: Agent) -> Adapter:
    return ADAPTERS[agent.runs]
