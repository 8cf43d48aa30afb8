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
    record = json_lines.decode(line)
    if record is None:
        return (Unknown(len(line)),), reading
    text = json_lines.text(record, "text")
    event: Event
    match record.get("type"):
        case "started":
            begun = json_lines.started(json_lines.text(record, "session"), reading.session)
            return begun, replace(reading, session=begun[0].session) if begun else reading
        case "text":
            event = TextEvent(text)
        case "tool":
            event = ToolEvent(
                json_lines.text(record, "name"),
                json_lines.shorten(json_lines.text(record, "detail")),
            )
        case "usage":
            event = _usage(record)
        case "rate_limit":
            until, after = json_lines.number(record, "until"), json_lines.number(record, "after")
            event = RateLimit(until=until, after=after, text=text)
        case "error":
            event = Error(kind=_kind(json_lines.text(record, "class")), text=text)
        case "result":
            event = Result(ok=record.get("ok") is True, text=text)
        case _:
            event = Unknown(len(line))
    return (event,), reading


def _usage(record: json_lines.Object) -> Usage:
    tokens = TokenCount(
        input=json_lines.count(record, "input"), output=json_lines.count(record, "output")
    )
    return Usage(
        extent=Extent.STEP, tokens=tokens, micro_usd=json_lines.micro_dollars(record, "usd")
    )


def _kind(name: str) -> ErrorClass | None:
    known = name in tuple(ErrorClass) and name != ErrorClass.STOPPED
    return ErrorClass(name) if known else None
