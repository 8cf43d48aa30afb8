"""The reports of running agents, as stored, in lines for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_NOTICED: Final = {"rate_limit": "rate limit: ", "retrying": "tries again: ", "error": ""}


def list_report_lines(report: Mapping[str, Any]) -> list[str]:
    """Return the lines of a report; none for a report that only programs use."""
    match report.get("type"):
        case "text":
            return str(report["text"]).splitlines()
        case "tool":
            return [f"→ {report['name']} {report['detail']}".rstrip()]
        case "rate_limit" | "retrying" | "error" as kind:
            noticed = _NOTICED[kind]
            lines = report["text"].splitlines() or ([""] if noticed else [])
            return [f"! {noticed}{line}".rstrip(": ") for line in lines]
    return []


def shorten_report(report: Mapping[str, Any]) -> str:
    """Return a report in a single line."""
    match report["type"]:
        case "text":
            return _last_line(report["text"])
        case "tool":
            return f"{report['name']} {_last_line(report['detail'])}".strip()
        case "rate_limit":
            return f"rate limited: {_last_line(report['text'])}"
        case "retrying":
            return f"tries again: {_last_line(report['text'])}"
        case "error":
            return f"error: {_last_line(report['text'])}"
    return ""


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""
