"""Files and tasks that the text of a task mentions.

A word is a file if the repository has it, or if it can only be a path: it has a directory and an
extension, or it is set as code while the paths of the repository are not known.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from weft.paths import BadPath, is_literal, normalise
from weft.plan.file_roles import FileRole, find_role

# The letters of a path, without code marks and punctuation.
_WORD = re.compile(r"[A-Za-z0-9_.@+~*/-]{2,300}")
_CODE = re.compile(r"`([^`\n]{1,300})`")
_LINK = re.compile(r"[a-z][a-z0-9+.-]{1,20}://\S+")
_EXTENSION = re.compile(r"[^/]*[A-Za-z0-9_*\]]\.[A-Za-z][A-Za-z0-9]{0,9}")
_TASK = re.compile(r"\btasks?[ \t]+#?([0-9]{1,9}[A-Za-z]?)(?![0-9A-Za-z.]*[0-9])", re.IGNORECASE)
_AND_TASK = re.compile(r"[ \t]*(?:,|and|&|\+|-)[ \t]*#?([0-9]{1,9})\b")
# `Node.js` and its like are no files, and `example.com/a.html` is none of ours.
_PRODUCT = re.compile(r"[A-Z][A-Za-z0-9]*\.js")
_HOST = re.compile(r"(?:[a-z0-9-]+\.)+(?:com|org|net|io|dev|ai)/.*", re.IGNORECASE)
_BARE_FILES: Final = frozenset({"Makefile", "Dockerfile", "Justfile", "Gemfile", "Procfile"})
_DOCUMENT = re.compile(r"[A-Z][A-Z0-9_-]+\.(?:md|rst|txt)")  # CHANGES.md, also as plain text
_LONGEST_TEXT: Final = 20_000


class Repository:
    """The paths of a repository, if they are known."""

    def __init__(self, paths: Iterable[str] | None) -> None:
        self.known = paths is not None
        self._files = set(paths or ())
        self._directories = {path[:cut] for path in self._files for cut in _cuts(path)}
        self._by_name: dict[str, list[str]] = {}
        for path in sorted(self._files):
            self._by_name.setdefault(path.rpartition("/")[2], []).append(path)

    def find(self, word: str) -> str | None:
        """Return the path that is meant by a word; None if the repository has none."""
        if word in self._files:
            return word
        if word.rstrip("/") in self._directories and "/" in word:
            return word.rstrip("/") + "/"
        same = self._by_name.get(word, [])
        return same[0] if len(same) == 1 else None


def find_files(text: str, repository: Repository) -> tuple[str, ...]:
    """Return the files that a text asks to change, as they are to be written into an annotation.

    Files that it forbids ("do not touch X") or only refers to ("see X") are left out.
    """
    return tuple(
        path for path, role in _mentioned(text, repository).items() if role is FileRole.CHANGED
    )


def find_references(text: str, repository: Repository) -> tuple[str, ...]:
    """Return the files that a text only refers to: "see X", "as in X"."""
    return tuple(
        path for path, role in _mentioned(text, repository).items() if role is FileRole.READ
    )


def _mentioned(text: str, repository: Repository) -> dict[str, FileRole]:
    """Map the files of a text to their roles; a file that is changed anywhere is changed."""
    text = _LINK.sub(lambda link: " " * len(link[0]), text[:_LONGEST_TEXT])
    roles: dict[str, FileRole] = {}
    code = {match[1].strip() for match in _CODE.finditer(text)}
    for word, start, end in _words(text):
        path = repository.find(word)
        if path is None and _is_path(word, is_code=word in code, repository=repository):
            path = word
        if path is not None and _usable(path):
            role = find_role(text, start, end)
            if roles.get(path) is not FileRole.CHANGED:
                roles[path] = role
    return roles


def find_tasks(text: str) -> tuple[str, ...]:
    """Return the numbers of the tasks that a text speaks of."""
    text = text[:_LONGEST_TEXT]
    numbers: dict[str, None] = {}
    for match in _TASK.finditer(text):
        numbers[match[1].upper()] = None
        at = match.end()
        while more := _AND_TASK.match(text, at):
            numbers[more[1]] = None
            at = more.end()
    return tuple(numbers)


def _words(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield the words that may be paths, with their places in the text."""
    for match in _WORD.finditer(text):
        # A sentence ends with a full stop, a path does not.
        bare = match[0].rstrip(".-+~@")
        word = bare.lstrip("-+~@").removeprefix("./")
        if len(word) > 1:
            yield word, match.start(), match.start() + len(bare)


def _is_path(word: str, *, is_code: bool, repository: Repository) -> bool:
    name = word.rpartition("/")[2]
    if "/" in word:
        is_file = bool(_EXTENSION.fullmatch(name)) or ("*" in name and is_code)
        return is_file and not _HOST.fullmatch(word)
    if repository.known or _PRODUCT.fullmatch(word):
        return False
    if _DOCUMENT.fullmatch(word):
        return True
    return is_code and (word in _BARE_FILES or bool(_EXTENSION.fullmatch(word)))


def _usable(path: str) -> bool:
    try:
        normalise(path)
    except BadPath:
        return False
    return is_literal(path) or "/" in path


def _cuts(path: str) -> Iterator[int]:
    at = path.find("/")
    while at > 0:
        yield at
        at = path.find("/", at + 1)
