"""The scripted agent that ships with weft: deterministic, quick, needs no key."""

from __future__ import annotations

import signal
import sys
from typing import Final

from weft import scripted
from weft.agents import json_lines
from weft.agents.adapters.base import (
    Facts,
    Launch,
    Read,
    ReaderState,
    Start,
    announce_mcp,
    option,
    read_json,
)
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
    Usage,
)
from weft.agents.json_lines import JsonRecord
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
    mcp = announce_mcp(start)
    return Launch(
        argv=(*argv, *commands, *agent.args),
        stdin=prompt.encode("utf-8"),
        environment=mcp.environment,
        files=mcp.files,
    )


def read(line: bytes, reading: ReaderState) -> Read:
    return read_json(line, reading, "session", _read)


def _read(record: JsonRecord, reading: ReaderState) -> Read | None:
    text = record.text("text")
    event: Event
    match record.get("type"):
        case "started":
            return (), reading
        case "text":
            event = TextEvent(text)
        case "tool":
            event = ToolEvent(
                record.text("name"),
                json_lines.shorten(record.text("detail")),
            )
        case "usage":
            event = _usage(record)
        case "rate_limit":
            until, after = record.number("until"), record.number("after")
            event = RateLimit(until=until, after=after, text=text)
        case "error":
            event = Error(kind=_kind(record.text("class")), text=text)
        case "result":
            event = Result(ok=record.get("ok") is True, text=text)
        case _:
            return None
    return (event,), reading


def _usage(record: JsonRecord) -> Usage:
    tokens = TokenCount(input=record.count("input"), output=record.count("output"))
    return Usage(extent=Extent.STEP, tokens=tokens, micro_usd=record.micro_dollars("usd"))


def _kind(name: str) -> ErrorClass | None:
    known = name in tuple(ErrorClass) and name != ErrorClass.STOPPED
    return ErrorClass(name) if known else None
