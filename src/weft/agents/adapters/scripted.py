"""The scripted agent that ships with weft: deterministic, quick, needs no key."""

from __future__ import annotations

import signal
import sys
from typing import Final

from msgspec.structs import replace

from weft import scripted
from weft.agents import lines
from weft.agents.adapters.base import Facts, Launch, Read, Reading, Start, option, told_of_mcp
from weft.agents.agent import Agent
from weft.agents.events import (
    Error,
    Event,
    Extent,
    RateLimit,
    Result,
    Text,
    Tokens,
    Tool,
    Unknown,
    Usage,
)
from weft.agents.places import Place
from weft.model import ErrorClass

FACTS: Final = Facts(
    program="",
    first_signal=signal.SIGTERM,
    idle=600,
    says_result=True,
    passes=("WEFT_SCRIPTED_STATE",),
    directories=(Place(variable="WEFT_SCRIPTED_STATE"),),
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


def read(line: bytes, reading: Reading) -> Read:
    if not line.strip():
        return (), reading
    found = lines.decode(line)
    if found is None:
        return (Unknown(len(line)),), reading
    said = lines.text(found, "text")
    event: Event
    match found.get("type"):
        case "started":
            begun = lines.started(lines.text(found, "session"), reading.session)
            return begun, replace(reading, session=begun[0].session) if begun else reading
        case "text":
            event = Text(said)
        case "tool":
            event = Tool(lines.text(found, "name"), lines.shorten(lines.text(found, "detail")))
        case "usage":
            event = _usage(found)
        case "rate_limit":
            until, after = lines.number(found, "until"), lines.number(found, "after")
            event = RateLimit(until=until, after=after, text=said)
        case "error":
            event = Error(kind=_kind(lines.text(found, "class")), text=said)
        case "result":
            event = Result(ok=found.get("ok") is True, text=said)
        case _:
            event = Unknown(len(line))
    return (event,), reading


def _usage(found: lines.Object) -> Usage:
    tokens = Tokens(input=lines.count(found, "input"), output=lines.count(found, "output"))
    return Usage(extent=Extent.STEP, tokens=tokens, micro_usd=lines.micro_dollars(found, "usd"))


def _kind(name: str) -> ErrorClass | None:
    known = name in tuple(ErrorClass) and name != ErrorClass.STOPPED
    return ErrorClass(name) if known else None
