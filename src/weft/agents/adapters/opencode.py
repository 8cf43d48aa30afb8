"""opencode: prompt on standard input, a JSON line for each part of a message.

opencode is silent before the model's first answer, and while it retries, which it does for ever;
its log on standard error gives the reason. A successful session ends with a step whose reason is
`stop`. Each step reports tokens and dollars.
"""

from __future__ import annotations

import re
import signal
from typing import Final

from msgspec.structs import replace

from weft.agents import failure_text, json_lines, reset_time
from weft.agents.adapters.base import Facts, Launch, Read, ReaderState, Start, encoded, option
from weft.agents.agent import Agent
from weft.agents.events import (
    Error,
    Event,
    Extent,
    Result,
    Retrying,
    TextEvent,
    TokenCount,
    ToolEvent,
    Unknown,
    Usage,
)
from weft.agents.program_files import ProgramFiles, xdg
from weft.model import ErrorClass

_SILENT: Final = frozenset({"step_start", "reasoning"})
_STREAM_ERROR: Final = re.compile(
    rb'message="stream error".{0,2000}? error\.error="((?:[^"\\]|\\.)*)'
)
_CUT_OFF: Final = "the model's answer was cut off at its limit of tokens"


def launch(agent: Agent, prompt: str, start: Start) -> Launch:
    argv = ["opencode", "run", "--format", "json", "--auto", "--print-logs", "--log-level", "ERROR"]
    argv += [*option("-m", agent.model), *option("-s", start.session), *agent.args]
    environment = {"OPENCODE_DISABLE_AUTOUPDATE": "1"}
    if start.mcp:
        headers = {"Authorization": f"Bearer {start.mcp.token}"}
        server = {"type": "remote", "url": start.mcp.url, "enabled": True, "headers": headers}
        environment["OPENCODE_CONFIG_CONTENT"] = encoded({"mcp": {"weft": server}}).decode()
    return Launch(argv=tuple(argv), stdin=prompt.encode("utf-8"), environment=environment)


def read(line: bytes, reading: ReaderState) -> Read:
    if not line.strip():
        return (), reading
    record = json_lines.decode(line)
    if record is None:
        return (Unknown(len(line)),), reading
    begun = json_lines.started(json_lines.text(record, "sessionID"), reading.session)
    if begun:
        reading = replace(reading, session=begun[0].session)
    part = json_lines.inner(record, "part")
    events: tuple[Event, ...]
    match record.get("type"):
        case "text":
            text = json_lines.text(part, "text")
            events, reading = (TextEvent(text),), replace(reading, text=text)
        case "tool_use":
            events = (_tool(part),)
        case "step_finish":
            events = _finish(part, reading)
        case "error":
            events = _failure(json_lines.inner(record, "error"))
        case str(kind) if kind in _SILENT:
            events = ()
        case _:
            events = (Unknown(len(line)),)
    return (*begun, *events), reading


def _tool(part: json_lines.Object) -> ToolEvent:
    state = json_lines.inner(part, "state")
    name = json_lines.text(part, "tool")
    title = json_lines.shorten(json_lines.text(state, "title"))
    return (
        ToolEvent(name, title) if title else json_lines.tool(name, json_lines.inner(state, "input"))
    )


def _finish(part: json_lines.Object, reading: ReaderState) -> tuple[Event, ...]:
    tokens = json_lines.inner(part, "tokens")
    cache = json_lines.inner(tokens, "cache")
    usage = Usage(
        extent=Extent.STEP,
        tokens=TokenCount(
            input=json_lines.count(tokens, "input"),
            output=json_lines.count(tokens, "output") + json_lines.count(tokens, "reasoning"),
            cache_read=json_lines.count(cache, "read"),
            cache_write=json_lines.count(cache, "write"),
        ),
        micro_usd=json_lines.micro_dollars(part, "cost"),
    )
    match part.get("reason"):
        case "stop":
            return (usage, Result(ok=True, text=reading.text))
        case "length":
            cut_off = Error(kind=ErrorClass.OTHER, text=_CUT_OFF)
            return (usage, cut_off, Result(ok=False, text=_CUT_OFF))
    return (usage,)


def _failure(error: json_lines.Object) -> tuple[Event, ...]:
    data = json_lines.inner(error, "data")
    name = json_lines.text(error, "name")
    text = json_lines.text(data, "message") or name or "no reason given"
    kind = failure_text.by_status(json_lines.number(data, "statusCode")) or failure_text.by_text(
        f"{name} {text}"
    )
    if name == "ProviderAuthError":
        kind = ErrorClass.AUTH
    events: tuple[Event, ...] = (Error(kind=kind, text=text), Result(ok=False, text=text))
    if kind is not ErrorClass.RATE_LIMIT:
        return events
    limit = reset_time.rate_limit(text)
    wait = json_lines.text(json_lines.inner(data, "responseHeaders"), "retry-after")
    if not limit.says_when and wait.isascii() and wait.isdigit() and len(wait) < 8:
        limit = replace(limit, after=float(wait))
    return (limit, *events)


def read_error(line: bytes) -> tuple[Event, ...]:
    """Read a failed request from a line of the log; opencode tries that request again."""
    match = _STREAM_ERROR.search(line[:10_000])
    if match is None:
        return ()
    text = json_lines.plain(match[1])
    kind = failure_text.by_text(text)
    if kind is ErrorClass.RATE_LIMIT:
        return (reset_time.rate_limit(text),)
    return (Retrying(kind=kind, text=text),)


FACTS: Final = Facts(
    program="opencode",
    first_signal=signal.SIGTERM,
    idle=1200,
    says_result=True,
    session_stays=True,
    read_error=read_error,
    tries=6,  # about a minute, with opencode's pauses
    passes=(
        "ANTHROPIC_API_KEY",
        "OPENAI_API_KEY",
        "GEMINI_API_KEY",
        "OPENROUTER_API_KEY",
        "OPENCODE_API_KEY",
        "OPENCODE_CONFIG",
        "OPENCODE_CONFIG_DIR",
    ),
    # opencode exits at once if it cannot write to any of these.
    directories=(
        *(xdg(kind, "opencode") for kind in ("CONFIG", "DATA", "STATE", "CACHE")),
        ProgramFiles(variable="OPENCODE_CONFIG_DIR"),
    ),
)
