"""Finding HTML comments in lines of Markdown, with their places.

Only looks at lines it is given: which lines are code is the block parser's business. Inside a
paragraph a comment may still stand in a code span, and then it is an example, not a comment.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from weft.plan.source import Positions

_OPEN = "<!--"
_CLOSE = "-->"
_ESCAPE_OR_BACKTICKS_OR_COMMENT = re.compile(r"\\.|`+|<!--")
_BACKTICKS = re.compile(r"`+")


class Comment(NamedTuple):
    body: str
    start: int  # of the whole comment in the text it was found in
    end: int
    closed: bool
    first_line: int  # of that text
    positions: Positions | None  # in that text; None if it is a single line

    @property
    def line(self) -> int:
        return self.place(0)[0]

    @property
    def column(self) -> int:
        return self.place(0)[1]

    def place(self, offset: int) -> tuple[int, int]:
        """Return line and column of an offset into the body."""
        at = self.start + len(_OPEN) + offset
        if self.positions is None:
            return self.first_line, at + 1
        line, column = self.positions.of(at)
        return line + self.first_line - 1, column


def find_in_html(lines: Sequence[str], first_line: int) -> list[Comment]:
    """Find the comments of an HTML block; `first_line` is the number of its first line."""
    text = lines[0] if len(lines) == 1 else "\n".join(lines)
    return _comments(text, first_line, _plain_openings(text))


def find_in_paragraph(text: str, first_line: int) -> list[Comment]:
    """Find the comments of a paragraph, which may hold code spans."""
    if _OPEN not in text:
        return []
    return _comments(text, first_line, _openings_outside_code(text))


def remove_comments(text: str, comments: Sequence[Comment]) -> str:
    """Return the text with the comments cut out."""
    if not comments:
        return text
    parts = []
    at = 0
    for comment in comments:
        parts.append(text[at : comment.start])
        at = comment.end
    parts.append(text[at:])
    return "".join(parts)


def _comments(text: str, first_line: int, openings: Iterator[int]) -> list[Comment]:
    positions = Positions(text) if "\n" in text else None
    comments = []
    end = 0
    for start in openings:
        if start < end:
            continue
        inside = start + len(_OPEN)
        close = text.find(_CLOSE, inside)
        end = close + len(_CLOSE) if close >= 0 else len(text)
        body = text[inside : close if close >= 0 else end]
        comments.append(Comment(body, start, end, close >= 0, first_line, positions))
    return comments


def _plain_openings(text: str) -> Iterator[int]:
    at = text.find(_OPEN)
    while at >= 0:
        yield at
        at = text.find(_OPEN, at + len(_OPEN))


def _openings_outside_code(text: str) -> Iterator[int]:
    last_run = {len(run[0]): run.start() for run in _BACKTICKS.finditer(text)}
    at = 0
    while mark := _ESCAPE_OR_BACKTICKS_OR_COMMENT.search(text, at):
        at = mark.end()
        if mark[0] == _OPEN:
            yield mark.start()
            # A backtick inside the comment opens no code span.
            close = text.find(_CLOSE, at)
            at = close + len(_CLOSE) if close >= 0 else len(text)
        elif mark[0][0] == "`" and last_run[len(mark[0])] > mark.start():
            at = _end_of_code(text, len(mark[0]), at)


def _end_of_code(text: str, ticks: int, at: int) -> int:
    for run in _BACKTICKS.finditer(text, at):
        if len(run[0]) == ticks:
            return run.end()
    return at
