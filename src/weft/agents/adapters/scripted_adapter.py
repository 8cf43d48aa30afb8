"""The scripted agent that ships with weft: deterministic, quick, needs no key."""

from __future__ import annotations

import signal
import sys
from typing import Final

from msgspec.structs import replace

from weft import scripted
from weft.agents import json_lines
from weft.agents.adapters.base import Facts, Launch, Read, ReaderState, Start, option, told_of_mcp
from weft.agents.agent import Agent
from weft.agents.events import (
    Error,
    Event,
    Extent,
    RateLimit,
    Result,
    TextEvent,
    TokenCount,
    ToolEvent,
    Unknown,
    Usage,
)
from weft.agents.program_files import ProgramFiles
from weft.model import ErrorClass

FACTS: Final = Facts(
    program="",
    first_signal=signal.SIGTERM,
    idle=600,
    says_result=True,
    passes=("WEFT_SCRIPTED_STATE",),
    directories=(ProgramFiles(variable="WEFT_SCRIPTED_STATE"),),
)


def launch(agent: Agent, prompt: str, start: Start) -> Launch:
    argv = (sys.executable, "-IS", scripted.__file__, *option("--resume", start.session))
    commands = ("--commands",) if agent.commands else ()
    mcp = told_of_mcp(start)
    return Launch(
        argv=(*argv, *commands, *agent.args),
        stdin=prompt.encode("utf-8"),
        environment=mcp.environment,
        files=mcp.files,
    )


def read(line: bytes, reading: ReaderState) -> Read:
    if not line.strip():
        return (), reading
    found = json_lines.decode(line)
    if found is None:
        return (Unknown(len(line)),), reading
    said = json_lines.text(found, "text")
    event: Event
    match found.get("type"):
        case "started":
            begun = json_lines.started(json_lines.text(found, "session"), reading.session)
            return begun, replace(reading, session=begun[0].session) if begun else reading
        case "text":
            event = TextEvent(said)
        case "tool":
            event = ToolEvent(
                json_lines.text(found, "name"), json_lines.shorten(json_lines.text(found, "detail"))
            )
        case "usage":
            event = _usage(found)
        case "rate_limit":
            until, after = json_lines.number(found, "until"), json_lines.number(found, "after")
            event = RateLimit(until=until, after=after, text=said)
        case "error":
            event = Error(kind=_kind(json_lines.text(found, "class")), text=said)
        case "result":
            event = Result(ok=found.get("ok") is True, text=said)
        case _:
            event = Unknown(len(line))
    return (event,), reading


def _usage(found: json_lines.Object) -> Usage:
    tokens = TokenCount(
        input=json_lines.count(found, "input"), output=json_lines.count(found, "output")
    )
    return Usage(
        extent=Extent.STEP, tokens=tokens, micro_usd=json_lines.micro_dollars(found, "usd")
    )


def _kind(name: str) -> ErrorClass | None:
    known = name in tuple(ErrorClass) and name != ErrorClass.STOPPED
    return ErrorClass(name) if known else None
