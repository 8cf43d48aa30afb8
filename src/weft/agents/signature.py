"""A short text by which the same failure is recognised again.

What differs from time to time is taken out: numbers, ids, times, addresses and directories.
"""

from __future__ import annotations

import re
from typing import Final

_LONGEST: Final = 160
_LOOKED_AT: Final = 1_000

_VARYING: Final = tuple(
    (re.compile(pattern), put)
    for pattern, put in (
        (r"\b[a-z][a-z0-9+.-]{1,15}://\S+", "<url>"),
        (r"\b\d{4}-\d\d-\d\d[t ]\d\d:\d\d\S*", "<time>"),
        (r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "<id>"),
        (r"\b(?:[a-z]{2,8}_)[a-z0-9]*\d[a-z0-9]*\b", "<id>"),
        (r"(?:[\w.~-]*/)+([\w.-]+)", r"<path>/\1"),
        (r"\b(?=[a-f]*\d)[0-9a-f]{7,64}\b", "<id>"),
        (r"\d+(?:[.:,]\d+)*", "#"),
        (r"\s+", " "),
    )
)


def signature(kind: str, text: str) -> str:
    short = text[:_LOOKED_AT].lower()
    for pattern, put in _VARYING:
        short = pattern.sub(put, short)
    return f"{kind}: {short.strip()}"[:_LONGEST]
