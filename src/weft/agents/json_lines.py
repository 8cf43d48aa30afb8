"""JSON lines of any quality: cut off, huge, nested, of wrong types.

`decode` returns an object or None and never raises. The getters return a value of the type asked
for or an empty value, so that a program that changes a field costs us that field only.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, Final

from weft.agents.events import Started, ToolEvent

LONGEST: Final = 8 * 1024 * 1024
"""A longer line is not looked at."""

_MOST: Final = 2**53
_SESSION: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,199}")
_LONGEST_DETAIL: Final = 300
_LONGEST_ESCAPE: Final = 6


class JsonRecord:
    """An object; its getters return a value of the type asked for, or an empty value."""

    __slots__ = ("fields",)

    def __init__(self, fields: dict[str, Any]) -> None:
        self.fields = fields

    def get(self, key: str) -> Any:
        return self.fields.get(key)

    def text(self, key: str) -> str:
        value = self.fields.get(key)
        return clean(value) if isinstance(value, str) else ""

    def inner(self, key: str) -> JsonRecord:
        value = self.fields.get(key)
        return JsonRecord(value if isinstance(value, dict) else {})

    def items(self, key: str) -> list[JsonRecord]:
        value = self.fields.get(key)
        items = value if isinstance(value, list) else []
        return [JsonRecord(item) for item in items if isinstance(item, dict)]

    def number(self, key: str) -> float | None:
        """Return a number of a sensible size, 0 or more."""
        value = self.fields.get(key)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        return float(value) if 0 <= value <= _MOST and not math.isnan(value) else None

    def count(self, key: str) -> int:
        return int(self.number(key) or 0)

    def micro_dollars(self, key: str) -> int | None:
        dollars = self.number(key)
        return None if dollars is None else round(dollars * 1_000_000)


def decode(line: bytes) -> JsonRecord | None:
    if len(line) > LONGEST:
        return None
    try:
        value = json.loads(line.decode("utf-8", "replace").lstrip("\ufeff"))
    except (ValueError, RecursionError):
        return None
    return JsonRecord(value) if isinstance(value, dict) else None


def shorten_line(beginning: bytes, end: bytes) -> bytes:
    """Shorten a JSON object that is too long to be read whole: join its two ends.

    The middle is nearly always part of a single long text. The cut may split an escape in that
    text, so a few positions are tried.
    """
    for place in range(min(len(end), _LONGEST_ESCAPE)):
        for dropped in range(_LONGEST_ESCAPE):
            joined = beginning[: len(beginning) - dropped] + end[place:]
            if decode(joined) is not None:
                return joined
    return beginning


def plain(line: bytes) -> str:
    """Return any line as text."""
    return clean(line[:LONGEST].decode("utf-8", "replace").rstrip("\r\n"))


def clean(text: str) -> str:
    """Make text storable and printable: no NUL, no half characters."""
    if text.isascii() and "\0" not in text:
        return text
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode("utf-8")


def started(session: str, known: str) -> tuple[Started, ...]:
    """Report the start of a session, if it is new and its id can stand on a command line."""
    if session == known or not _SESSION.fullmatch(session):
        return ()
    return (Started(session),)


def tool(name: str, arguments: JsonRecord) -> ToolEvent:
    """Return a tool call with its most telling argument."""
    for key in ("command", "file_path", "filePath", "path", "pattern", "query", "url"):
        if detail := arguments.text(key):
            return ToolEvent(name, shorten(detail))
    return ToolEvent(name)


def shorten(content: str) -> str:
    content = " ".join(content.split())
    return content if len(content) <= _LONGEST_DETAIL else content[: _LONGEST_DETAIL - 1] + "…"
