"""opencode: prompt on standard input, one JSON line for each part of a message.

opencode prints nothing before the model's first answer, and nothing while it retries, which it does
for ever; its log on standard error gives the reason. A successful session ends with a step whose
reason is `stop`. Each step reports tokens and dollars.
"""

from __future__ import annotations

import re
import signal
from typing import Final

from msgspec.structs import replace

from weft.agents import lines, reset_time, trouble
from weft.agents.adapters.base import Facts, Launch, Read, Reading, Start, encoded, option
from weft.agents.agent import Agent
from weft.agents.events import (
    Error,
    Event,
    Extent,
    Result,
    Retrying,
    Text,
    Tokens,
    Tool,
    Unknown,
    Usage,
)
from weft.agents.places import Place, xdg
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


def read(line: bytes, reading: Reading) -> Read:
    if not line.strip():
        return (), reading
    found = lines.decode(line)
    if found is None:
        return (Unknown(len(line)),), reading
    begun = lines.started(lines.text(found, "sessionID"), reading.session)
    if begun:
        reading = replace(reading, session=begun[0].session)
    part = lines.inner(found, "part")
    events: tuple[Event, ...]
    match found.get("type"):
        case "text":
            said = lines.text(part, "text")
            events, reading = (Text(said),), replace(reading, text=said)
        case "tool_use":
            events = (_tool(part),)
        case "step_finish":
            events = _finish(part, reading)
        case "error":
            events = _failure(lines.inner(found, "error"))
        case str(kind) if kind in _SILENT:
            events = ()
        case _:
            events = (Unknown(len(line)),)
    return (*begun, *events), reading


def _tool(part: lines.Object) -> Tool:
    state = lines.inner(part, "state")
    name = lines.text(part, "tool")
    title = lines.shorten(lines.text(state, "title"))
    return Tool(name, title) if title else lines.tool(name, lines.inner(state, "input"))


def _finish(part: lines.Object, reading: Reading) -> tuple[Event, ...]:
    tokens = lines.inner(part, "tokens")
    cache = lines.inner(tokens, "cache")
    usage = Usage(
        extent=Extent.STEP,
        tokens=Tokens(
            input=lines.count(tokens, "input"),
            output=lines.count(tokens, "output") + lines.count(tokens, "reasoning"),
            cache_read=lines.count(cache, "read"),
            cache_write=lines.count(cache, "write"),
        ),
        micro_usd=lines.micro_dollars(part, "cost"),
    )
    match part.get("reason"):
        case "stop":
            return (usage, Result(ok=True, text=reading.text))
        case "length":
            cut_off = Error(kind=ErrorClass.OTHER, text=_CUT_OFF)
            return (usage, cut_off, Result(ok=False, text=_CUT_OFF))
    return (usage,)


def _failure(error: lines.Object) -> tuple[Event, ...]:
    data = lines.inner(error, "data")
    name = lines.text(error, "name")
    said = lines.text(data, "message") or name or "no reason given"
    kind = trouble.by_status(lines.number(data, "statusCode")) or trouble.by_text(f"{name} {said}")
    if name == "ProviderAuthError":
        kind = ErrorClass.AUTH
    events: tuple[Event, ...] = (Error(kind=kind, text=said), Result(ok=False, text=said))
    if kind is not ErrorClass.RATE_LIMIT:
        return events
    limit = reset_time.rate_limit(said)
    wait = lines.text(lines.inner(data, "responseHeaders"), "retry-after")
    if not limit.says_when and wait.isascii() and wait.isdigit() and len(wait) < 8:
        limit = replace(limit, after=float(wait))
    return (limit, *events)


def read_error(line: bytes) -> tuple[Event, ...]:
    """Read a failed request from a line of the log; opencode tries that request again."""
    found = _STREAM_ERROR.search(line[:10_000])
    if found is None:
        return ()
    said = lines.plain(found[1])
    kind = trouble.by_text(said)
    if kind is ErrorClass.RATE_LIMIT:
        return (reset_time.rate_limit(said),)
    return (Retrying(kind=kind, text=said),)


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
        Place(variable="OPENCODE_CONFIG_DIR"),
    ),
)
