"""Codex: prompt on standard input, a JSON line for each event.

Its use counts the whole session, cached input included in the input, and knows no dollars. It waits
for ever on an open standard input, and ends its work cleanly on INT.
"""

from __future__ import annotations

import json
import re
import signal
from typing import Final

from msgspec.structs import replace

from weft.agents import events, failure_text, json_lines
from weft.agents.adapters import adapter
from weft.agents.agent import Agent
from weft.agents.json_lines import JsonRecord
from weft.agents.program_files import ProgramFiles
from weft.model import ErrorClass

FACTS: Final = adapter.Facts(
    program="codex",
    provider="openai",
    first_signal=signal.SIGINT,
    idle=900,
    says_result=True,
    passes=("OPENAI_API_KEY", "OPENAI_BASE_URL", "CODEX_API_KEY", "CODEX_HOME"),
    directories=(ProgramFiles(variable="CODEX_HOME", home=".codex"),),
)

_TOKEN: Final = "WEFT_MCP_TOKEN"  # noqa: S105 - the name of a variable
_AGAIN: Final = re.compile(r"Reconnecting\b", re.IGNORECASE)
_SILENT: Final = frozenset({"turn.started", "item.updated"})
_THOUGHTS: Final = frozenset({"reasoning", "todo_list"})

_NO_ANSWER: Final = "the model ended without an answer: it refused, or had nothing to say"


def launch(agent: Agent, prompt: str, start: adapter.Start) -> adapter.Launch:
    argv = ["codex", "exec", *(["resume"] if start.session else [])]
    argv += ["--json", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"]
    argv += adapter.option("-m", agent.model)
    if start.mcp:
        # Settings on the command line leave the user's CODEX_HOME, and with it the login, alone.
        argv += ["-c", f"mcp_servers.weft.url={_toml(start.mcp.url)}"]
        argv += ["-c", f"mcp_servers.weft.bearer_token_env_var={_toml(_TOKEN)}"]
    argv += [*agent.args, *([start.session] if start.session else []), "-"]
    return adapter.Launch(
        argv=tuple(argv),
        stdin=prompt.encode("utf-8"),
        environment={_TOKEN: start.mcp.token} if start.mcp else {},
    )


def _toml(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)  # also a TOML string


def read(line: bytes, reading: adapter.ReaderState) -> adapter.Read:
    return adapter.read_json(line, reading, "thread_id", _read)


def _read(record: JsonRecord, reading: adapter.ReaderState) -> adapter.Read | None:
    match record.get("type"):
        case "thread.started":
            return (), reading
        case "item.started" | "item.completed" as when:
            return _item(record.inner("item"), when, reading)
        case "turn.completed":
            tokens = _tokens(record.inner("usage"))
            usage = events.Usage(extent=events.Extent.SESSION, tokens=tokens)
            return (usage, *_end(reading.text)), reading
        case "turn.failed":
            text = record.inner("error").text("message")
            return (*_failure(text), events.Result(ok=False, text=text)), reading
        case "error":
            return _failure(record.text("message")), reading
        case str(kind) if kind in _SILENT:
            return (), reading
    return None


def _item(item: JsonRecord, when: str, reading: adapter.ReaderState) -> adapter.Read:
    kind, name = item.text("type"), item.text("id")
    if kind in _THOUGHTS:
        return (), reading
    if kind == "agent_message":
        if when == "item.started":
            return (), reading
        text = item.text("text")
        return (events.TextEvent(text),), replace(reading, text=text)
    if kind == "error":
        return (), reading  # a warning; a failure that ends the turn comes as `turn.failed`
    if name and name == reading.item:
        return (), reading  # its end; its beginning was told
    return (_tool(kind, item),), replace(reading, item=name, text="")


def _end(text: str) -> tuple[events.Event, ...]:
    """Return the events of a turn's end. codex prints no refusal: such a turn has no message."""
    if text:
        return (events.Result(ok=True, text=text),)
    error = events.Error(kind=ErrorClass.OTHER, text=_NO_ANSWER)
    return (error, events.Result(ok=False, text=_NO_ANSWER))


def _tool(kind: str, item: JsonRecord) -> events.ToolEvent:
    if changes := item.items("changes"):
        paths = ", ".join(change.text("path") for change in changes)
        return events.ToolEvent(kind, json_lines.shorten(paths))
    return json_lines.tool(item.text("tool") or kind, item)


def _failure(text: str) -> tuple[events.Event, ...]:
    kind = failure_text.classify_text(text)
    report = adapter.report_retry if _AGAIN.match(text) else adapter.report_error
    return report(kind, text)


def _tokens(usage: JsonRecord) -> events.TokenCount:
    cached = usage.count("cached_input_tokens")
    return events.TokenCount(
        input=max(0, usage.count("input_tokens") - cached),
        output=usage.count("output_tokens"),
        cache_read=cached,
        cache_write=usage.count("cache_write_input_tokens"),
    )
