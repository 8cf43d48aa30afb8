"""Claude Code: prompt on standard input, `stream-json` on standard output.

An API failure reads `"subtype": "success", "is_error": true`. Tokens in the last line count this
process, dollars the whole session. While it runs, a message comes once for each of its parts,
each time with the same use; output tokens are only known at the end.
"""

from __future__ import annotations

import signal
from typing import Final

from msgspec.structs import replace

from weft.agents import failure_text, json_lines, reset_time
from weft.agents.adapters.base import Facts, Launch, Mcp, Read, ReaderState, Start, encoded, option
from weft.agents.agent import Agent
from weft.agents.events import (
    Error,
    Event,
    Extent,
    RateLimit,
    Result,
    Retrying,
    TextEvent,
    TokenCount,
    Unknown,
    Usage,
)
from weft.agents.program_files import ProgramFiles, xdg
from weft.model import ErrorClass

_ENVIRONMENT: Final = {
    "DISABLE_AUTOUPDATER": "1",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "CLAUDE_CODE_MAX_RETRIES": "3",  # it would try a wrong key again for minutes
}

FACTS: Final = Facts(
    program="claude",
    first_signal=signal.SIGTERM,
    idle=900,
    says_result=True,
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


def launch(agent: Agent, prompt: str, start: Start) -> Launch:
    argv = ["claude", "-p", "--output-format", "stream-json", "--verbose"]
    argv += ["--dangerously-skip-permissions", *option("--model", agent.model)]
    argv += option("--resume", start.session)
    argv += option("--tools", ",".join(agent.tools))
    if start.micro_usd is not None and start.session is None:
        # After a resume its own count goes on from the session's, ours from zero.
        argv += ["--max-budget-usd", f"{start.micro_usd / 1_000_000:.6f}"]
    if start.mcp:
        argv += ["--strict-mcp-config", "--mcp-config", f"{start.directory}/{_MCP_FILE}"]
    return Launch(
        argv=(*argv, *agent.args),
        stdin=prompt.encode("utf-8"),
        # As root it refuses to skip its questions unless told that it is fenced in.
        environment={**_ENVIRONMENT, **({"IS_SANDBOX": "1"} if start.root else {})},
        files={_MCP_FILE: _mcp(start.mcp)} if start.mcp else {},
    )


def _mcp(mcp: Mcp) -> bytes:
    # A file, because every user of the machine can read command lines.
    headers = {"Authorization": f"Bearer {mcp.token}"}
    return encoded({"mcpServers": {"weft": {"type": "http", "url": mcp.url, "headers": headers}}})


def read(line: bytes, reading: ReaderState) -> Read:
    if not line.strip():
        return (), reading
    record = json_lines.decode(line)
    if record is None:
        return (Unknown(len(line)),), reading
    begun = json_lines.started(json_lines.text(record, "session_id"), reading.session)
    if begun:
        reading = replace(reading, session=begun[0].session)
    match record.get("type"):
        case "assistant":
            events, reading = _message(record, reading)
        case "result":
            events = _result(record)
        case "system" if record.get("subtype") == "api_retry":
            events = (_retry(record),)
        case "rate_limit_event":
            events = _limit(json_lines.inner(record, "rate_limit_info"))
        case str(kind) if kind in _SILENT:
            events = ()
        case _:
            events = (Unknown(len(line)),)
    return (*begun, *events), reading


def _message(record: json_lines.Object, reading: ReaderState) -> Read:
    message = json_lines.inner(record, "message")
    parts: list[Event] = []
    for part in json_lines.items(message, "content"):
        match part.get("type"):
            case "text" if record.get("is_api_error_message") or record.get("error"):
                parts.append(Error(kind=_kind(record), text=json_lines.text(part, "text")))
            case "text":
                parts.append(TextEvent(json_lines.text(part, "text")))
            case "tool_use":
                parts.append(
                    json_lines.tool(json_lines.text(part, "name"), json_lines.inner(part, "input"))
                )
    name = json_lines.text(message, "id")
    if name and name != reading.item:
        parts.append(Usage(extent=Extent.STEP, tokens=_tokens(json_lines.inner(message, "usage"))))
        reading = replace(reading, item=name)
    return tuple(parts), reading


def _result(record: json_lines.Object) -> tuple[Event, ...]:
    text = json_lines.text(record, "result")
    subtype = json_lines.text(record, "subtype")
    ok = record.get("is_error") is False and subtype == "success"
    usage = [Usage(extent=Extent.RUN, tokens=_tokens(json_lines.inner(record, "usage")))]
    if (spent := json_lines.micro_dollars(record, "total_cost_usd")) is not None:
        usage.append(Usage(extent=Extent.SESSION, micro_usd=spent))
    if ok:
        return (*usage, Result(ok=True, text=text))
    reasons = record.get("errors")
    listed = "; ".join(str(reason) for reason in reasons) if isinstance(reasons, list) else ""
    text = text or json_lines.clean(listed) or subtype or "no reason given"
    kind = _kind(record)
    limit = (reset_time.rate_limit(text),) if kind is ErrorClass.RATE_LIMIT else ()
    return (*usage, *limit, Error(kind=kind, text=text), Result(ok=False, text=text))


def _retry(record: json_lines.Object) -> Event:
    kind = _kind(record)
    text = json_lines.text(record, "error")
    if kind is ErrorClass.RATE_LIMIT:
        delay = json_lines.number(record, "retry_delay_ms")
        return RateLimit(after=None if delay is None else delay / 1000, text=text)
    return Retrying(kind=kind, text=text)


def _limit(info: json_lines.Object) -> tuple[Event, ...]:
    # Told after every turn of a subscription; only `rejected` keeps the program from working.
    if info.get("status") not in ("rejected", "denied"):
        return ()
    return (
        RateLimit(until=json_lines.number(info, "resetsAt"), text="the plan's limit is reached"),
    )


def _kind(record: json_lines.Object) -> ErrorClass | None:
    status = json_lines.number(record, "api_error_status") or json_lines.number(
        record, "error_status"
    )
    return failure_text.by_status(status) or _KINDS.get(json_lines.text(record, "error"))


def _tokens(usage: json_lines.Object) -> TokenCount:
    return TokenCount(
        input=json_lines.count(usage, "input_tokens"),
        output=json_lines.count(usage, "output_tokens"),
        cache_read=json_lines.count(usage, "cache_read_input_tokens"),
        cache_write=json_lines.count(usage, "cache_creation_input_tokens"),
    )
