"""What agents say on their way, as it is reported to the store, in lines for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_NOTICED: Final = {"rate_limit": "rate limit: ", "retrying": "tries again: ", "error": ""}


def list_report_lines(said: Mapping[str, Any]) -> list[str]:
    """One thing that was said or done; nothing for what is of use to programs alone."""
    match said.get("type"):
        case "text":
            return str(said["text"]).splitlines()
        case "tool":
            return [f"→ {said['name']} {said['detail']}".rstrip()]
        case "rate_limit" | "retrying" | "error" as kind:
            noticed = _NOTICED[kind]
            lines = said["text"].splitlines() or ([""] if noticed else [])
            return [f"! {noticed}{one}".rstrip(": ") for one in lines]
    return []


def shorten_report(said: Mapping[str, Any]) -> str:
    """The same in one line."""
    match said["type"]:
        case "text":
            return _last_line(said["text"])
        case "tool":
            return f"{said['name']} {_last_line(said['detail'])}".strip()
        case "rate_limit":
            return f"rate limited: {_last_line(said['text'])}"
        case "retrying":
            return f"tries again: {_last_line(said['text'])}"
        case "error":
            return f"error: {_last_line(said['text'])}"
    return ""


def _last_line(text: str) -> str:
    lines = [one.strip() for one in text.splitlines() if one.strip()]
    return lines[-1] if lines else ""
