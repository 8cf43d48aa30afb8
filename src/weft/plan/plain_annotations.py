"""Annotations that are written as plain lines under a task: `files: src/a.py`.

A key in small letters is an annotation. A key that may begin a sentence, such as `Files:` or
`**Check:**`, is an annotation if its value has the form of one. Every other known key is reported.
"""

from __future__ import annotations

import re
from typing import Final

from weft.plan.annotations import Annotation, canonical_key, read_comment
from weft.plan.html_comments import Comment
from weft.plan.problems import Problems

_LINE = re.compile(
    r"[ \t]*(?:[-*+][ \t]+)?(?P<bold>\*\*|__)?(?P<key>[A-Za-z][A-Za-z_-]{0,40}(?: on)?)"
    r"(?:(?P=bold))?:(?:(?P=bold))?(?:[ \t]+(?P<value>.*))?[ \t]*$"
)
_READ: Final = frozenset({"files", "depends", "check"})
_PROSE: Final = frozenset({"new"})
"""Keys that begin ordinary sentences; they count in comments only."""
_PATH = re.compile(r"`[^`]+`|\"[^\"]+\"|'[^']+'|[^\s`]+")
_REFERENCE = re.compile(r"(?:(?:task|phase)s?[ _#-]*)?[\w./:-]+", re.IGNORECASE)
_CODE = re.compile(r"`[^`]+`")
_COMMA = re.compile(r",(?=(?:[^\"]*\"[^\"]*\")*[^\"]*$)")
_OPENING: Final = len("<!--")


def is_plain_annotation(line: str) -> bool:
    """Tell whether a line begins with the key of an annotation."""
    match = _LINE.match(line)
    return match is not None and _key(match) is not None


def read_plain(line: str, number: int, problems: Problems) -> list[Annotation]:
    """Return the annotation of a line under a task; report a known key that is not read."""
    match = _LINE.match(line)
    key = _key(match) if match else None
    if match is None or key is None:
        return []
    value = (match["value"] or "").strip()
    if key not in _READ or not _fits(key, match["key"], value):
        report_plain(line, number, problems)
        return []
    if key == "check" and _CODE.fullmatch(value):
        value = value[1:-1]
    at = line.rindex(value) if value else len(line)
    body = f"{key}: {value}"
    # The places of a comment count from its opening; the value keeps its own place in the line.
    start = at - len(key) - 2 - _OPENING
    return read_comment(Comment(body, start, len(line), True, number, None), problems)


def report_plain(line: str, number: int, problems: Problems) -> None:
    """Report a plain line with a known key that is not read as an annotation."""
    match = _LINE.match(line)
    key = _key(match) if match else None
    if match is None or key is None:
        return
    problems.warn(
        (number, match.start("key") + 1),
        "plain-key",
        f"{match['key']!r} is read as prose here.",
        f"Write `<!-- {key}: … -->`, indented under its task, if it is an annotation.",
    )


def _key(match: re.Match[str]) -> str | None:
    word = match["key"].lower().removesuffix(" on")
    return None if word in _PROSE else canonical_key(word)


def _fits(key: str, written: str, value: str) -> bool:
    items = [item.strip() for item in _COMMA.split(value)]
    if key == "files":
        return all(_PATH.fullmatch(item) for item in items)
    if key == "depends":
        return all(_REFERENCE.fullmatch(item) for item in items)
    return bool(value) and (written.islower() or bool(_CODE.fullmatch(value)))
