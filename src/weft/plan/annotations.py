"""Annotations: keys and values in the body of an HTML comment.

    <!-- files: src/a.ts, "a,b.ts"; depends: task1 -->

Annotations are separated by `;` or new lines. A line without a key goes on with the list above it,
and a command keeps its `;` unless a known key follows. `annotation_values` reads the values;
`markdown` decides whether a key belongs to a task or a phase.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Final, NamedTuple

from weft.plan.attributes import ATTRIBUTES
from weft.plan.html_comments import Comment
from weft.plan.problems import Problems, shorten

PHASE_KEYS: Final = frozenset({"execution", "depends"})
LIST_KEYS: Final = frozenset({"files", "new", "depends", "reads", "stages", "uses"})
"""Keys of tasks that add to their list when they are repeated."""

MOST_ITEMS: Final = 50_000
"""The most items in a comment."""

_ALIASES: Final = {"writes": "files"}
_KEYS: Final = PHASE_KEYS | LIST_KEYS | ATTRIBUTES.keys() | _ALIASES.keys()

_KEY = re.compile(r"[ \t]*(?:[-*+][ \t]+)?([A-Za-z][A-Za-z_-]{0,40})[ \t]*:")
_SEPARATOR_OR_QUOTED = re.compile(r'"[^"\n]*"|;|\n')
_COMMA_OR_QUOTED = re.compile(r'"[^"\n]*"|[,\n]')
_BULLETS: Final = ("-", "*", "+")
_BULLET = re.compile(r"[-*+][ \t]+")


class AnnotationItem(NamedTuple):
    """An element of a list."""

    text: str
    after: int  # an offset into the body of the comment, with only blanks between
    quoted: bool


class Annotation(NamedTuple):
    key: str
    value: str
    comment: Comment
    key_at: int  # offsets into the body of the comment
    value_at: int

    @property
    def place(self) -> tuple[int, int]:
        return self.comment.place(self.key_at)

    def place_of(self, item: AnnotationItem) -> tuple[int, int]:
        text = f'"{item.text}"' if item.quoted else item.text
        return self.comment.place(self.comment.body.index(text, item.after))

    def items(self) -> list[AnnotationItem]:
        """Cut a list at its commas and line ends; quotes keep a comma."""
        return list(_items(self))


def read_comment(comment: Comment, problems: Problems) -> list[Annotation]:
    """Return the annotations of a comment; none if it holds no known key and so is prose."""
    body = comment.body
    if ":" not in body:
        return []
    if len(body) > MOST_ITEMS and sum(body.count(mark) for mark in ",;\n") > MOST_ITEMS:
        problems.error(
            (comment.line, comment.column),
            "too-large",
            f"This comment lists more than {MOST_ITEMS:,} things, and is ignored.",
            "Name directories, such as src/, instead of so many files.",
        )
        return []
    if ";" not in body and "\n" not in body and (only := _KEY.match(body)):
        # The usual comment: a single annotation on a single line.
        word = canonical_key(only[1])
        if word is not None:
            return [Annotation(word, body[only.end() :], comment, only.start(1), only.end())]
    segments = list(_segments(body))
    keys = [_KEY.match(body, start, end) for start, end in segments]
    words = [canonical_key(key[1]) if key else None for key in keys]
    if not any(words):
        _suspect_misspellings(comment, keys, problems)
        return []
    # Each with its key, where that stands, and where its value begins and ends.
    spans: list[tuple[str, int, int, int]] = []
    for (start, end), key, word in zip(segments, keys, words, strict=True):
        if key is not None and word is not None:
            spans.append((word, key.start(1), key.end(), end))
        elif not body[start:end].strip():
            continue
        elif spans and _continues(spans[-1][0], key, body, start):
            spans[-1] = (*spans[-1][:3], end)
        else:
            _report_stray(comment, key, start, end, problems)
    return [
        Annotation(word, body[value_at:end], comment, key_at, value_at)
        for word, key_at, value_at, end in spans
    ]


def canonical_key(word: str) -> str | None:
    """Return the key that is written so; None if it is none."""
    word = word.lower().replace("_", "-")
    return _ALIASES.get(word, word) if word in _KEYS else None


def _segments(body: str) -> Iterator[tuple[int, int]]:
    start = 0
    if ";" in body or "\n" in body:
        for match in _SEPARATOR_OR_QUOTED.finditer(body):
            if match[0] in ";\n":
                yield start, match.start()
                start = match.end()
    yield start, len(body)


def _continues(last: str, key: re.Match[str] | None, body: str, start: int) -> bool:
    """Return whether a segment without a known key belongs to the annotation before it."""
    separator = body[start - 1]
    if last == "check":
        return separator == ";"
    return last in LIST_KEYS and key is None and separator == "\n"


def _items(annotation: Annotation) -> Iterator[AnnotationItem]:
    value = annotation.value
    # Without a quote, the usual case, every comma counts.
    if '"' in value:
        ends = [match.start() for match in _COMMA_OR_QUOTED.finditer(value) if match[0] in ",\n"]
        parts = [value[a + 1 : b] for a, b in pairwise([-1, *ends, len(value)])]
    else:
        parts = value.replace("\n", ",").split(",")
    start = annotation.value_at
    for part in parts:
        text = part.strip()
        if text[:1] in _BULLETS and (bullet := _BULLET.match(text)):
            text = text[bullet.end() :]
        if text:
            quoted = len(text) > 1 and text[0] == text[-1] == '"'
            yield AnnotationItem(text[1:-1] if quoted else text, start, quoted)
        start += len(part) + 1


def _suspect_misspellings(
    comment: Comment, keys: list[re.Match[str] | None], problems: Problems
) -> None:
    for key in keys:
        if key is None:
            continue
        word = key[1].lower()
        close = problems.closest(word, sorted(_KEYS))
        if close:
            line, column = comment.place(key.start(1))
            problems.warn(
                (line, column),
                "unknown-key",
                f"{key[1]!r} is no annotation, so this comment is read as prose.",
                f"Did you mean {close!r}?",
            )


def _report_stray(
    comment: Comment, key: re.Match[str] | None, start: int, end: int, problems: Problems
) -> None:
    text = comment.body[start:end].strip()
    line, column = comment.place(comment.body.index(text, start))
    if key is None:
        problems.warn(
            (line, column),
            "stray-text",
            f"{shorten(text)!r} has no key, and is ignored.",
            "Write `key: value`, and keep remarks out of annotations.",
        )
        return
    known = sorted(_KEYS)
    problems.warn(
        (line, column),
        "unknown-key",
        f"{key[1]!r} is no annotation, and is ignored.",
        problems.suggest(key[1].lower(), known, f"Known are {', '.join(known)}.", cutoff=0.75),
    )
