"""The lines of a file: encoding, line ends, and the limits on its size.

Bytes that are not UTF-8 become surrogates in `raw`, so that columns and write-back stay exact. All
other code reads `lines`, which has U+FFFD in their place.
"""

from __future__ import annotations

import bisect
from typing import Final

from msgspec import Struct

from weft.plan.problems import TOP, Problems

MOST_BYTES: Final = 4 * 1024 * 1024
"""Room for some 20,000 annotated tasks. Markdown takes about two seconds for so much."""

MOST_LINES: Final = 200_000

_BOM: Final = b"\xef\xbb\xbf"
_UTF16: Final = (b"\xff\xfe", b"\xfe\xff")
_TO_REPLACEMENT: Final = dict.fromkeys(range(0xD800, 0xE000), 0xFFFD)


class SourceText(Struct, frozen=True, kw_only=True):
    """The lines of a file, without their ends."""

    raw: tuple[str, ...]
    ends: tuple[bytes, ...]  # the end of each line: \\n, \\r\\n, \\r or empty
    bom: bool
    lines: tuple[str, ...]


def decode(data: bytes, problems: Problems) -> SourceText | None:
    """Cut the bytes into lines; None if there are more than we are willing to read."""
    if len(data) > MOST_BYTES:
        problems.error(
            TOP,
            "too-large",
            f"The file has {len(data):,} bytes; weft reads at most {MOST_BYTES:,}.",
            "Split the plan into several files.",
        )
        return None
    bom = data.startswith(_BOM)
    if data.startswith(_UTF16):
        problems.error(
            TOP, "not-utf8", "The file is encoded as UTF-16.", "Save it as UTF-8 and check again."
        )
    pieces = (data[len(_BOM) :] if bom else data).splitlines(keepends=True)
    if len(pieces) > MOST_LINES:
        problems.error(
            (MOST_LINES, 1),
            "too-large",
            f"The file has {len(pieces):,} lines; weft reads at most {MOST_LINES:,}.",
            "Split the plan into several files.",
        )
        return None
    raw = []
    ends = []
    for piece in pieces:
        body = piece.rstrip(b"\r\n")
        raw.append(body.decode("utf-8", "surrogateescape"))
        ends.append(piece[len(body) :])
    return SourceText(raw=tuple(raw), ends=tuple(ends), bom=bom, lines=_clean(raw, problems))


def encode(text: SourceText) -> bytes:
    """Give back exactly the bytes that were decoded."""
    body = b"".join(
        line.encode("utf-8", "surrogateescape") + end
        for line, end in zip(text.raw, text.ends, strict=True)
    )
    return _BOM + body if text.bom else body


def without_surrogates(text: str) -> str:
    """Replace surrogates, which cannot be printed, by U+FFFD."""
    return text if text.isascii() else text.translate(_TO_REPLACEMENT)


def _clean(raw: list[str], problems: Problems) -> tuple[str, ...]:
    lines = []
    for number, line in enumerate(raw, 1):
        cleaned = without_surrogates(line)
        if cleaned != line:
            column = next(i for i, (a, b) in enumerate(zip(line, cleaned, strict=True)) if a != b)
            problems.warn(
                (number, column + 1),
                "not-utf8",
                "This line holds bytes that are not UTF-8; each is read as �.",
                "Save the file as UTF-8.",
            )
        lines.append(cleaned)
    return tuple(lines)


class Positions:
    """Lines and columns of offsets into a string, both counted from 1."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._starts: list[int] = []

    def of(self, offset: int) -> tuple[int, int]:
        starts = self._starts
        if not starts:
            # Only now: most text is never asked about.
            starts.append(0)
            at = self._text.find("\n")
            while at >= 0:
                starts.append(at + 1)
                at = self._text.find("\n", at + 1)
        line = bisect.bisect_right(starts, offset)
        return line, offset - starts[line - 1] + 1
