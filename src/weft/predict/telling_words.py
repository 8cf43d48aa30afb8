"""The words by which messages and tasks are compared: parts of identifiers, without endings."""

from __future__ import annotations

import re
from typing import Final

_LONGEST_TEXT: Final = 4_000  # characters of a message or a task that are read
_MOST_WORDS: Final = 60  # distinct words of a text
_LONGEST_WORD: Final = 30

_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\W\d_a-zA-Z]+")
_IDENTIFIER = re.compile(r"\b[A-Za-z_][A-Za-z0-9_]{3,60}\b")
_CAMEL = re.compile(r"[a-z0-9][A-Z]")

_COMMON: Final = frozenset(
    """
    a about add added adds after all also an and any are as at be because been before both but
    by can change changed changes do does each ensure every first for from get has have if
    implement in instead into is it its let make makes more must new no not now of on once one
    only or other our out over per please remove same set should so some such support task tasks
    than that the their them then there these they this those to too under update updated use
    used uses using via was were what when where which while who will with within without work
    would you your signed off co authored coauthored https www com org github
    """.split()  # noqa: SIM905 - a list literal takes a hundred lines
)


def distinct_words(text: str) -> dict[str, str]:
    """Map each telling word of a text, without its ending, to its first spelling there."""
    words: dict[str, str] = {}
    for match in _PART.finditer(text[:_LONGEST_TEXT]):
        spelling = match[0].lower()
        if len(spelling) < 2 or len(spelling) > _LONGEST_WORD or spelling in _COMMON:
            continue
        words.setdefault(stem(spelling), spelling)
        if len(words) == _MOST_WORDS:
            break
    return words


def stem(word: str) -> str:
    """Cut a usual English ending off, so that *parses*, *parsed* and *parsing* are the same."""
    for ending in ("ing", "ers", "er", "ed", "es", "s", "e"):
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith("ss"):
            return word[: -len(ending)]
    return word


def list_identifiers(text: str) -> list[str]:
    """List the words of a text that can only be names in code: snake_case, camelCase."""
    names: dict[str, None] = {}
    for match in _IDENTIFIER.finditer(text[:_LONGEST_TEXT]):
        name = match[0]
        if "_" in name.strip("_") or _CAMEL.search(name):
            names[name.strip()] = None
    return list(names)[:_MOST_WORDS]
