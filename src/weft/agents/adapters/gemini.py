"""Gemini CLI: prompt on standard input, `stream-json` on standard output.

Messages come in pieces and are joined here. Gemini is silent for minutes while it retries, and ends
with exit code 0 on TERM, so only its `result` line tells success. That line is the same for a
refusal, a cut-off answer and a whole answer: only the telemetry has the stop reason.

Gemini takes no settings on its command line, and system settings only from root. So each attempt
gets its own settings directory, in which weft completes the user's settings.
"""

from __future__ import annotations

import json
import re
import signal
from typing import Any, Final

from msgspec.structs import replace

from weft.agents import events, failure_text, json_lines
from weft.agents.adapters import adapter
from weft.agents.agent import Agent
from weft.agents.json_lines import JsonRecord
from weft.agents.program_files import ProgramFiles
from weft.model import ErrorClass

_HOME: Final = ProgramFiles(variable="GEMINI_CLI_HOME", home="", name=".gemini")
_SETTINGS: Final = "settings.json"
_TELEMETRY: Final = "home/.gemini/telemetry.json"
_POLICY: Final = "tools.toml"
_LONGEST_TEXT: Final = 1024 * 1024
_SILENT: Final = frozenset({"tool_result"})
_COMMENT: Final = re.compile(r'("(?:[^"\\]|\\.)*+")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_GAVE_UP: Final = re.compile(r"stopping execution|execution (?:stopped|blocked)", re.IGNORECASE)
_RETRY: Final = re.compile(rb"Attempt [0-9]+ failed with status ([0-9]{3})")
_STOP_REASONS: Final = re.compile(r'"finish_reasons": \[([^\]]*)\],\s*"role": "main"')
_BAD_ENDS: Final = {
    "length": "the model's answer was cut off at its limit of tokens",
    "content_filter": "the model refused to answer: its provider's filter stopped it",
    "error": "the model's answer ended with an error",
}


def launch(agent: Agent, prompt: str, start: adapter.Start) -> adapter.Launch:
    argv = ["gemini", "--output-format", "stream-json", "--yolo", "--skip-trust"]
    argv += [*adapter.option("-m", agent.model), *adapter.option("--resume", start.session)]
    files = {f"home/.gemini/{_SETTINGS}": adapter.encoded(_settings(start))}
    if agent.tools:
        argv += ["--policy", f"{start.directory}/{_POLICY}"]
        files[_POLICY] = _policy(agent.tools).encode()
    return adapter.Launch(
        argv=(*argv, *agent.args),
        stdin=prompt.encode("utf-8"),
        environment={
            "GEMINI_CLI_NO_RELAUNCH": "true"
        },  # otherwise a second, larger process does the work
        files=files,
    )


def _settings(start: adapter.Start) -> dict[str, Any]:
    written = _COMMENT.sub(r"\1", start.settings.decode(errors="replace"))
    record = json_lines.decode(written.encode()) or JsonRecord({})
    settings = record.fields
    if not record.inner("telemetry").get("enabled"):
        settings["telemetry"] = {
            "enabled": True,
            "target": "local",
            "outfile": f"{start.directory}/{_TELEMETRY}",
            "traces": False,
            "logPrompts": False,
        }
    if start.mcp:
        headers = {"Authorization": f"Bearer {start.mcp.token}"}
        weft = {"httpUrl": start.mcp.url, "headers": headers}
        settings["mcpServers"] = {**record.inner("mcpServers").fields, "weft": weft}
    return settings


def _policy(tools: tuple[str, ...]) -> str:
    """Return rules that hide every tool from the model except `tools` and weft's tools."""
    return f"""\
[[rule]]
toolName = "*"
decision = "deny"
priority = 900

[[rule]]
toolName = {json.dumps(tools)}
decision = "allow"
priority = 901

[[rule]]
toolName = "*"
mcpName = "weft"
decision = "allow"
priority = 901
"""


def read(line: bytes, reading: adapter.ReaderState) -> adapter.Read:
    return adapter.read_json(line, reading, "session_id", _read)


def _read(record: JsonRecord, reading: adapter.ReaderState) -> adapter.Read | None:
    if record.get("type") == "message":
        return _message(record, reading)
    finished, reading = _report_message(reading)
    parts = _events(record, reading)
    return None if parts is None else ((*finished, *parts), reading)


def _events(record: JsonRecord, reading: adapter.ReaderState) -> tuple[events.Event, ...] | None:
    match record.get("type"):
        case "init":
            return ()
        case "tool_use":
            name = record.text("tool_name")
            return (json_lines.tool(name, record.inner("parameters")),)
        case "result":
            return _result(record, reading)
        case "error":
            text = record.text("message")
            serious = record.get("severity") != "warning" or _GAVE_UP.search(text)
            return _failure(text) if serious else ()
        case str(kind) if kind in _SILENT:
            return ()
    return None


def _message(record: JsonRecord, reading: adapter.ReaderState) -> adapter.Read:
    """Gather pieces of a message in `text`; `item` marks a message that was not reported yet."""
    if record.get("role") != "assistant":
        return (), reading
    before = reading.text if reading.item else ""
    text = before + record.text("content")
    gathered = replace(reading, item="open", text=text[:_LONGEST_TEXT])
    return ((), gathered) if record.get("delta") is True else _report_message(gathered)


def _report_message(reading: adapter.ReaderState) -> adapter.Read:
    if not reading.item:
        return (), reading
    return (events.TextEvent(reading.text),), replace(reading, item="")


def _result(record: JsonRecord, reading: adapter.ReaderState) -> tuple[events.Event, ...]:
    stats = record.inner("stats")
    cached = stats.count("cached")
    tokens = events.TokenCount(
        input=max(0, stats.count("input_tokens") - cached),
        output=stats.count("output_tokens"),
        cache_read=cached,
    )
    usage = events.Usage(extent=events.Extent.RUN, tokens=tokens)
    if record.get("status") == "success":
        return (usage, events.Result(ok=True, text=reading.text))
    text = record.inner("error").text("message")
    # Without its own message, the result repeats the `error` line before it.
    return (usage, *(_failure(text) if text else ()), events.Result(ok=False, text=text))


def _failure(text: str) -> tuple[events.Event, ...]:
    return adapter.report_error(failure_text.classify_text(text), text)


def read_error(line: bytes) -> tuple[events.Event, ...]:
    match = _RETRY.search(line[:1_000])
    if match is None:
        return ()
    kind = failure_text.classify_status(int(match[1]))
    return adapter.report_retry(kind, json_lines.plain(line[:1_000]))


def read_telemetry(text: str) -> tuple[events.Event, ...]:
    """Return the failure with which the model's last answer ended, if any."""
    answers = _STOP_REASONS.findall(text)
    reasons = re.findall(r'"(\w+)"', answers[-1]) if answers else []
    failure = _BAD_ENDS.get(reasons[-1]) if reasons else None
    if failure is None:
        return ()
    error = events.Error(kind=ErrorClass.OTHER, text=failure)
    return (error, events.Result(ok=False, text=failure))


FACTS: Final = adapter.Facts(
    program="gemini",
    provider="google",
    first_signal=signal.SIGTERM,
    idle=1200,
    says_result=True,
    # Its search has had two names.
    reading=("read_file", "list_directory", "glob", "search_file_content", "grep_search"),
    session_stays=True,
    in_pieces=True,
    # Gemini's own codes, and the last byte of an HTTP status.
    exits={
        41: ErrorClass.AUTH,
        42: ErrorClass.CONFIG,
        52: ErrorClass.CONFIG,
        **{
            status % 256: kind
            for status in (401, 403, 404, 429, 500, 502, 503, 504)
            if (kind := failure_text.classify_status(status))
        },
    },
    read_error=read_error,
    journal=adapter.Journal(path=_TELEMETRY, read=read_telemetry),
    home=adapter.Home(place=_HOME, settings=_SETTINGS, shared=("tmp", "history")),
    passes=(
        "GEMINI_API_KEY",
        "GOOGLE_API_KEY",
        "GOOGLE_APPLICATION_CREDENTIALS",
        "GOOGLE_CLOUD_PROJECT",
        "GOOGLE_CLOUD_LOCATION",
        "GOOGLE_GENAI_USE_VERTEXAI",
        "GOOGLE_GENAI_USE_GCA",
        "GOOGLE_GEMINI_BASE_URL",
    ),
    directories=(_HOME,),
)
