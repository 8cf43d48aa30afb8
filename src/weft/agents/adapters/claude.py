"""Claude Code: prompt on standard input, `stream-json` on standard output.

An API failure reads `"subtype": "success", "is_error": true`. Tokens in the last line count this
process, dollars the whole session. While it runs, a message comes once for each of its parts,
each time with the same use; output tokens are only known at the end.
"""

from __future__ import annotations

import signal
from typing import Final

from msgspec.structs import replace

from weft.agents import events, failure_text, json_lines
from weft.agents.adapters import adapter
from weft.agents.agent import Agent
from weft.agents.json_lines import JsonRecord
from weft.agents.program_files import ProgramFiles, xdg
from weft.model import ErrorClass

_ENVIRONMENT: Final = {
    "DISABLE_AUTOUPDATER": "1",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "CLAUDE_CODE_MAX_RETRIES": "3",  # it would try a wrong key again for minutes
}

FACTS: Final = adapter.Facts(
    program="claude",
    provider="anthropic",
    first_signal=signal.SIGTERM,
    idle=900,
    says_result=True,
    reading=("Read", "Glob", "Grep"),
    passes=(
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_AUTH_TOKEN",
        "ANTHROPIC_BASE_URL",
        "CLAUDE_CODE_OAUTH_TOKEN",
        "CLAUDE_CONFIG_DIR",
        *_ENVIRONMENT,
    ),
    # Not where its installer puts the program itself: it is told not to update.
    directories=(
        ProgramFiles(variable="CLAUDE_CONFIG_DIR", home=".claude"),
        xdg("STATE", "claude"),
        xdg("CACHE", "claude-cli-nodejs"),
    ),
    # Written in place when no file may be made beside it.
    files=(ProgramFiles(home=".claude.json"),),
)

_MCP_FILE: Final = "mcp.json"
_KINDS: Final = {
    "authentication_failed": ErrorClass.AUTH,
    "billing_error": ErrorClass.AUTH,
    "rate_limit": ErrorClass.RATE_LIMIT,
    "server_error": ErrorClass.OVERLOAD,
    "overloaded": ErrorClass.OVERLOAD,
}
_SILENT: Final = frozenset({"user", "system", "stream_event", "tool_progress", "rate_limit_event"})


def launch(agent: Agent, prompt: str, start: adapter.Start) -> adapter.Launch:
    argv = ["claude", "-p", "--output-format", "stream-json", "--verbose"]
    argv += ["--dangerously-skip-permissions", *adapter.option("--model", agent.model)]
    argv += adapter.option("--resume", start.session)
    argv += adapter.option("--tools", ",".join(agent.tools))
    if start.micro_usd is not None and start.session is None:
        # After a resume its own count goes on from the session's, ours from zero.
        argv += ["--max-budget-usd", f"{start.micro_usd / 1_000_000:.6f}"]
    if start.mcp:
        argv += ["--strict-mcp-config", "--mcp-config", f"{start.directory}/{_MCP_FILE}"]
    return adapter.Launch(
        argv=(*argv, *agent.args),
        stdin=prompt.encode("utf-8"),
        # As root it refuses to skip its questions unless told that it is fenced in.
        environment={**_ENVIRONMENT, **({"IS_SANDBOX": "1"} if start.root else {})},
        files={_MCP_FILE: _mcp(start.mcp)} if start.mcp else {},
    )


def _mcp(mcp: adapter.Mcp) -> bytes:
    # A file, because every user of the machine can read command lines.
    headers = {"Authorization": f"Bearer {mcp.token}"}
    return adapter.encoded(
        {"mcpServers": {"weft": {"type": "http", "url": mcp.url, "headers": headers}}}
    )


def read(line: bytes, reading: adapter.ReaderState) -> adapter.Read:
    return adapter.read_json(line, reading, "session_id", _read)


def _read(record: JsonRecord, reading: adapter.ReaderState) -> adapter.Read | None:
    match record.get("type"):
        case "assistant":
            return _message(record, reading)
        case "result":
            return _result(record), reading
        case "system" if record.get("subtype") == "api_retry":
            return (_retry(record),), reading
        case "rate_limit_event":
            return _limit(record.inner("rate_limit_info")), reading
        case str(kind) if kind in _SILENT:
            return (), reading
    return None


def _message(record: JsonRecord, reading: adapter.ReaderState) -> adapter.Read:
    message = record.inner("message")
    parts: list[events.Event] = []
    for part in message.items("content"):
        match part.get("type"):
            case "text" if record.get("is_api_error_message") or record.get("error"):
                parts.append(events.Error(kind=_kind(record), text=part.text("text")))
            case "text":
                parts.append(events.TextEvent(part.text("text")))
            case "tool_use":
                parts.append(json_lines.tool(part.text("name"), part.inner("input")))
    name = message.text("id")
    if name and name != reading.item:
        parts.append(
            events.Usage(extent=events.Extent.STEP, tokens=_tokens(message.inner("usage")))
        )
        reading = replace(reading, item=name)
    return tuple(parts), reading


def _result(record: JsonRecord) -> tuple[events.Event, ...]:
    text = record.text("result")
    subtype = record.text("subtype")
    ok = record.get("is_error") is False and subtype == "success"
    usage = [events.Usage(extent=events.Extent.RUN, tokens=_tokens(record.inner("usage")))]
    if (spent := record.micro_dollars("total_cost_usd")) is not None:
        usage.append(events.Usage(extent=events.Extent.SESSION, micro_usd=spent))
    if ok:
        return (*usage, events.Result(ok=True, text=text))
    reasons = record.get("errors")
    listed = "; ".join(str(reason) for reason in reasons) if isinstance(reasons, list) else ""
    text = text or json_lines.clean(listed) or subtype or "no reason given"
    error = adapter.report_error(_kind(record), text)
    return (*usage, *error, events.Result(ok=False, text=text))


def _retry(record: JsonRecord) -> events.Event:
    kind = _kind(record)
    text = record.text("error")
    if kind is ErrorClass.RATE_LIMIT:
        delay = record.number("retry_delay_ms")
        return events.RateLimit(after=None if delay is None else delay / 1000, text=text)
    return events.Retrying(kind=kind, text=text)


def _limit(info: JsonRecord) -> tuple[events.Event, ...]:
    # Sent after every turn of a subscription; only `rejected` keeps the program from working.
    if info.get("status") not in ("rejected", "denied"):
        return ()
    return (events.RateLimit(until=info.number("resetsAt"), text="the plan's limit is reached"),)


def _kind(record: JsonRecord) -> ErrorClass | None:
    status = record.number("api_error_status") or record.number("error_status")
    return failure_text.classify_status(status) or _KINDS.get(record.text("error"))


def _tokens(usage: JsonRecord) -> events.TokenCount:
    return events.TokenCount(
        input=usage.count("input_tokens"),
        output=usage.count("output_tokens"),
        cache_read=usage.count("cache_read_input_tokens"),
        cache_write=usage.count("cache_creation_input_tokens"),
    )
