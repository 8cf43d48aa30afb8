"""Gemini CLI: prompt as an argument, `stream-json` on standard output.

Messages come in pieces and are put together here. It is silent for minutes while it retries, and
ends with exit code 0 on TERM, so that only its `result` line tells success.
"""

from __future__ import annotations

import signal
from typing import Any, Final

from msgspec.structs import replace

from weft.agents import lines, trouble
from weft.agents.adapters.base import (
    LONGEST_ARGUMENT,
    Facts,
    Launch,
    Read,
    Reading,
    Start,
    encoded,
    option,
)
from weft.agents.agent import Agent
from weft.agents.events import Error, Event, Extent, RateLimit, Result, Text, Tokens, Unknown, Usage
from weft.agents.places import Place
from weft.model import ErrorClass

FACTS: Final = Facts(
    program="gemini",
    first_signal=signal.SIGTERM,
    idle=1200,
    says_result=True,
    in_pieces=True,
    passes=(
        "GEMINI_API_KEY",
        "GOOGLE_API_KEY",
        "GOOGLE_APPLICATION_CREDENTIALS",
        "GOOGLE_CLOUD_PROJECT",
        "GOOGLE_CLOUD_LOCATION",
        "GOOGLE_GENAI_USE_VERTEXAI",
        "GOOGLE_GEMINI_BASE_URL",
        "GEMINI_CLI_HOME",
    ),
    directories=(Place(variable="GEMINI_CLI_HOME", home="", name=".gemini"),),
)

_SETTINGS: Final = "gemini.json"
_LONGEST_TEXT: Final = 1024 * 1024
_SILENT: Final = frozenset({"tool_result"})
_AS_ABOVE: Final = "Do what is asked above."


def launch(agent: Agent, prompt: str, start: Start) -> Launch:
    argv = ["gemini", "--output-format", "stream-json", "--yolo", "--skip-trust"]
    argv += [*option("-m", agent.model), *option("--resume", start.session), *agent.args]
    # What is too long for an argument goes before it, on standard input.
    long = len(prompt.encode("utf-8")) > LONGEST_ARGUMENT
    settings = _settings(agent, start)
    environment = {"GEMINI_CLI_NO_RELAUNCH": "true"}  # else a second, larger process does the work
    if settings:
        environment["GEMINI_CLI_SYSTEM_SETTINGS_PATH"] = f"{start.directory}/{_SETTINGS}"
    return Launch(
        argv=(*argv, "-p", _AS_ABOVE if long else prompt),
        stdin=prompt.encode("utf-8") if long else b"",
        environment=environment,
        files={_SETTINGS: encoded(settings)} if settings else {},
    )


def _settings(agent: Agent, start: Start) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    if agent.tools:
        settings["tools"] = {"core": list(agent.tools)}
    if start.mcp:
        headers = {"Authorization": f"Bearer {start.mcp.token}"}
        settings["mcpServers"] = {"weft": {"httpUrl": start.mcp.url, "headers": headers}}
    return settings


def read(line: bytes, reading: Reading) -> Read:
    if not line.strip():
        return (), reading
    found = lines.decode(line)
    if found is None:
        return (Unknown(len(line)),), reading
    if found.get("type") == "message":
        return _message(found, reading)
    told, reading = _told(reading)
    events, reading = _event(found, len(line), reading)
    return (*told, *events), reading


def _event(found: lines.Object, size: int, reading: Reading) -> Read:
    match found.get("type"):
        case "init":
            begun = lines.started(lines.text(found, "session_id"), reading.session)
            return begun, replace(reading, session=begun[0].session) if begun else reading
        case "tool_use":
            name = lines.text(found, "tool_name")
            return (lines.tool(name, lines.inner(found, "parameters")),), reading
        case "result":
            return _result(found, reading), reading
        case "error":
            serious = found.get("severity") != "warning"
            return _failure(lines.text(found, "message")) if serious else (), reading
        case str(kind) if kind in _SILENT:
            return (), reading
    return (Unknown(size),), reading


def _message(found: lines.Object, reading: Reading) -> Read:
    """Pieces gather in `text`; `item` marks a message that has not been told yet."""
    if found.get("role") != "assistant":
        return (), reading
    before = reading.text if reading.item else ""
    said = before + lines.text(found, "content")
    gathered = replace(reading, item="open", text=said[:_LONGEST_TEXT])
    return ((), gathered) if found.get("delta") is True else _told(gathered)


def _told(reading: Reading) -> Read:
    if not reading.item:
        return (), reading
    return (Text(reading.text),), replace(reading, item="")


def _result(found: lines.Object, reading: Reading) -> tuple[Event, ...]:
    stats = lines.inner(found, "stats")
    cached = lines.count(stats, "cached")
    tokens = Tokens(
        input=max(0, lines.count(stats, "input_tokens") - cached),
        output=lines.count(stats, "output_tokens"),
        cache_read=cached,
    )
    usage = Usage(extent=Extent.RUN, tokens=tokens)
    if found.get("status") == "success":
        return (usage, Result(ok=True, text=reading.text))
    said = lines.text(lines.inner(found, "error"), "message") or "no reason given"
    return (usage, *_failure(said), Result(ok=False, text=said))


def _failure(said: str) -> tuple[Event, ...]:
    kind = trouble.by_text(said)
    error = Error(kind=kind, text=said)
    if kind is not ErrorClass.RATE_LIMIT:
        return (error,)
    until, after = trouble.reset(said)
    return (RateLimit(until=until, after=after, text=said), error)
