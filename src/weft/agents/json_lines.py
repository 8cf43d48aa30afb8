"""Reading JSON lines that may be anything: cut off, huge, nested, of the wrong types.

`decode` gives an object or None and never raises. The getters give a value of the type asked for
or something empty, so that a program that changes a field costs us that field only.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, Final

from weft.agents.events import Started, ToolEvent

Object = dict[str, Any]

LONGEST: Final = 8 * 1024 * 1024
"""A longer line is not looked at."""

_MOST: Final = 2**53
_SESSION: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,199}")
_LONGEST_DETAIL: Final = 300
_LONGEST_ESCAPE: Final = 6


def decode(line: bytes) -> Object | None:
    if len(line) > LONGEST:
        return None
    try:
        found = json.loads(line.decode("utf-8", "replace").lstrip("\ufeff"))
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


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
    """A line as text, whatever it is."""
    return clean(line[:LONGEST].decode("utf-8", "replace").rstrip("\r\n"))


def clean(text: str) -> str:
    """Text that can be stored and printed: no NUL, no half characters."""
    if text.isascii() and "\0" not in text:
        return text
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode("utf-8")


def text(found: Object, key: str) -> str:
    value = found.get(key)
    return clean(value) if isinstance(value, str) else ""


def inner(found: Object, key: str) -> Object:
    value = found.get(key)
    return value if isinstance(value, dict) else {}


def items(found: Object, key: str) -> list[Object]:
    value = found.get(key)
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def number(found: Object, key: str) -> float | None:
    """A number of a sensible size, 0 or more."""
    value = found.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value <= _MOST and not math.isnan(value) else None


def count(found: Object, key: str) -> int:
    return int(number(found, key) or 0)


def micro_dollars(found: Object, key: str) -> int | None:
    dollars = number(found, key)
    return None if dollars is None else round(dollars * 1_000_000)


def started(session: str, known: str) -> tuple[Started, ...]:
    """That a session began, if it is a new one and can be put on a command line."""
    if session == known or not _SESSION.fullmatch(session):
        return ()
    return (Started(session),)


def tool(name: str, arguments: Object) -> ToolEvent:
    """A tool call, with the argument that says most about it."""
    for key in ("command", "file_path", "filePath", "path", "pattern", "query", "url"):
        if said := text(arguments, key):
            return ToolEvent(name, shorten(said))
    return ToolEvent(name)


def shorten(said: str) -> str:
    said = " ".join(said.split())
    return said if len(said) <= _LONGEST_DETAIL else said[: _LONGEST_DETAIL - 1] + "…"
