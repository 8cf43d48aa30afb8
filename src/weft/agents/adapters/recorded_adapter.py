"""The player of recordings. Its output is that of the recorded program, whose adapter reads it."""

from __future__ import annotations

import signal
import sys
from typing import Final

from weft import player
from weft.agents.adapters import adapter, command_adapter
from weft.agents.agent import Agent

FACTS: Final = adapter.Facts(program="", first_signal=signal.SIGTERM, idle=600, says_result=False)
TAPE: Final = "tape.json"
FAST: Final = "--fast"


def launch(agent: Agent, prompt: str, start: adapter.Start) -> adapter.Launch:
    mcp = adapter.announce_mcp(start)
    return adapter.Launch(
        argv=(sys.executable, "-IS", player.__file__, f"{start.directory}/{TAPE}", *agent.args),
        stdin=prompt.encode("utf-8"),
        environment=mcp.environment,
        files={**mcp.files, **start.tape},
    )


read = command_adapter.read
