"""The scripted agent that ships with weft: deterministic, quick, needs no key."""

from __future__ import annotations

import signal
import sys
from typing import Final

from weft import scripted
from weft.agents import events, json_lines
from weft.agents.adapters import adapter
from weft.agents.agent import Agent
from weft.agents.json_lines import JsonRecord
from weft.agents.program_files import ProgramFiles
from weft.model import ErrorClass

FACTS: Final = adapter.Facts(
    program="",
    first_signal=signal.SIGTERM,
    idle=600,
    says_result=True,
    passes=("WEFT_SCRIPTED_STATE",),
    directories=(ProgramFiles(variable="WEFT_SCRIPTED_STATE"),),
)


def launch(agent: Agent, prompt: str, start: adapter.Start) -> adapter.Launch:
    argv = (sys.executable, "-IS", scripted.__file__, *adapter.option("--resume", start.session))
    commands = ("--commands",) if agent.commands else ()
    mcp = adapter.announce_mcp(start)
    return adapter.Launch(
        argv=(*argv, *commands, *agent.args),
        stdin=prompt.encode("utf-8"),
        environment=mcp.environment,
        files=mcp.files,
    )


def read(line: bytes, reading: adapter.ReaderState) -> adapter.Read:
    return adapter.read_json(line, reading, "session", _read)


def _read(record: JsonRecord, reading: adapter.ReaderState) -> adapter.Read | None:
    text = record.text("text")
    event: events.Event
    match record.get("type"):
        case "started":
            return (), reading
        case "text":
            event = events.TextEvent(text)
        case "tool":
            event = events.ToolEvent(record.text("name"), json_lines.shorten(record.text("detail")))
        case "usage":
            event = _usage(record)
        case "rate_limit":
            until, after = record.number("until"), record.number("after")
            event = events.RateLimit(until=until, after=after, text=text)
        case "error":
            event = events.Error(kind=_kind(record.text("class")), text=text)
        case "result":
            event = events.Result(ok=record.get("ok") is True, text=text)
        case _:
            return None
    return (event,), reading


def _usage(record: JsonRecord) -> events.Usage:
    tokens = events.TokenCount(input=record.count("input"), output=record.count("output"))
    return events.Usage(
        extent=events.Extent.STEP, tokens=tokens, micro_usd=record.micro_dollars("usd")
    )


def _kind(name: str) -> ErrorClass | None:
    known = name in tuple(ErrorClass) and name != ErrorClass.STOPPED
    return ErrorClass(name) if known else None
