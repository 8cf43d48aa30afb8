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

from weft.agents import events, failure_text, json_lines, reset_time
from weft.agents.adapters import adapter
from weft.agents.agent import Agent
from weft.agents.json_lines import JsonRecord
from weft.agents.program_files import ProgramFiles, xdg
from weft.model import ErrorClass

_SILENT: Final = frozenset({"step_start", "reasoning"})
_STREAM_ERROR: Final = re.compile(
    rb'message="stream error".{0,2000}? error\.error="((?:[^"\\]|\\.)*)'
)
_CUT_OFF: Final = "the model's answer was cut off at its limit of tokens"


def launch(agent: Agent, prompt: str, start: adapter.Start) -> adapter.Launch:
    argv = ["opencode", "run", "--format", "json", "--auto", "--print-logs", "--log-level", "ERROR"]
    argv += [*adapter.option("-m", agent.model), *adapter.option("-s", start.session), *agent.args]
    environment = {"OPENCODE_DISABLE_AUTOUPDATE": "1"}
    if start.mcp:
        headers = {"Authorization": f"Bearer {start.mcp.token}"}
        server = {"type": "remote", "url": start.mcp.url, "enabled": True, "headers": headers}
        environment["OPENCODE_CONFIG_CONTENT"] = adapter.encoded({"mcp": {"weft": server}}).decode()
    return adapter.Launch(argv=tuple(argv), stdin=prompt.encode("utf-8"), environment=environment)


def read(line: bytes, reading: adapter.ReaderState) -> adapter.Read:
    return adapter.read_json(line, reading, "sessionID", _read)


def _read(record: JsonRecord, reading: adapter.ReaderState) -> adapter.Read | None:
    part = record.inner("part")
    match record.get("type"):
        case "text":
            text = part.text("text")
            return (events.TextEvent(text),), replace(reading, text=text)
        case "tool_use":
            return (_tool(part),), reading
        case "step_finish":
            return _finish(part, reading), reading
        case "error":
            return _failure(record.inner("error")), reading
        case str(kind) if kind in _SILENT:
            return (), reading
    return None


def _tool(part: JsonRecord) -> events.ToolEvent:
    state = part.inner("state")
    name = part.text("tool")
    title = json_lines.shorten(state.text("title"))
    return events.ToolEvent(name, title) if title else json_lines.tool(name, state.inner("input"))


def _finish(part: JsonRecord, reading: adapter.ReaderState) -> tuple[events.Event, ...]:
    tokens = part.inner("tokens")
    cache = tokens.inner("cache")
    usage = events.Usage(
        extent=events.Extent.STEP,
        tokens=events.TokenCount(
            input=tokens.count("input"),
            output=tokens.count("output") + tokens.count("reasoning"),
            cache_read=cache.count("read"),
            cache_write=cache.count("write"),
        ),
        micro_usd=part.micro_dollars("cost"),
    )
    match part.get("reason"):
        case "stop":
            return (usage, events.Result(ok=True, text=reading.text))
        case "length":
            cut_off = events.Error(kind=ErrorClass.OTHER, text=_CUT_OFF)
            return (usage, cut_off, events.Result(ok=False, text=_CUT_OFF))
    return (usage,)


def _failure(error: JsonRecord) -> tuple[events.Event, ...]:
    data = error.inner("data")
    name = error.text("name")
    text = data.text("message") or name or "no reason given"
    kind = failure_text.classify_status(data.number("statusCode")) or failure_text.classify_text(
        f"{name} {text}"
    )
    if name == "ProviderAuthError":
        kind = ErrorClass.AUTH
    ending: tuple[events.Event, ...] = (
        events.Error(kind=kind, text=text),
        events.Result(ok=False, text=text),
    )
    if kind is not ErrorClass.RATE_LIMIT:
        return ending
    limit = reset_time.parse_rate_limit(text)
    wait = data.inner("responseHeaders").text("retry-after")
    if not limit.says_when and wait.isascii() and wait.isdigit() and len(wait) < 8:
        limit = replace(limit, after=float(wait))
    return (limit, *ending)


def read_error(line: bytes) -> tuple[events.Event, ...]:
    """Read a failed request from a line of the log; opencode tries that request again."""
    match = _STREAM_ERROR.search(line[:10_000])
    if match is None:
        return ()
    text = json_lines.plain(match[1])
    return adapter.report_retry(failure_text.classify_text(text), text)


FACTS: Final = adapter.Facts(
    program="opencode",
    provider="opencode",
    names_provider=True,
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
