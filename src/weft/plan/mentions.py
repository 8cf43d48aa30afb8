"""The role of a file in the text of a task: to be changed, to be read, or to be left alone."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Final

from msgspec import Struct

from weft.paths import BadPath, is_literal, normalise


class FileRole(StrEnum):
    CHANGED = "changed"
    READ = "read"  # "see X", "as in X"
    FORBIDDEN = "forbidden"  # "do not touch X"


_FAR: Final = 200  # characters around a file that may say how it is meant
_SENTENCE_END = re.compile(r"[.!?;][ \t\n]|\n[ \t]*\n|\n[ \t]*[-*+][ \t]")
_ASIDE = re.compile(r"\([^()]*\)")
# The last of these words before a file says how it is meant.
_CUES = re.compile(
    r"""
    (?P<forbidden>
        \b(?:(?:do|does|must|may|should|will)[ ]not|don['’]?t|never|without|avoid|no[ ]need[ ]to)
            [ ]+\w+
        | \b(?:leave|except(?:[ ]for)?|apart[ ]from|other[ ]than|instead[ ]of|rather[ ]than|
            but[ ]not)\b
    )
    | (?P<read>
        \b(?:see(?:[ ]also)?|read|refers?[ ]to|referring[ ]to|cf|consult|compare|like|
            as[ ]in|similar[ ]to|same[ ]as|per|according[ ]to|based[ ]on|
            (?:described|specified|documented|defined)[ ]in|follow(?:s|ing)?|mirror(?:s|ing)?|
            look[ ]at|copy[ ]from|import(?:s|ed|ing)?[ ]from|(?:used|called|tested)[ ]by)\b
    )
    | (?P<changed>
        \b(?:add|append|build|change|create|delete|document|edit|extend|fill|fix|generate|implement|
            introduce|make|migrate|modify|move|put|refactor|remove|rename|replace|rewrite|split|
            test|touch|update|write|wire)(?:s|es|d|ed|ing)?\b
    )
    """,
    re.IGNORECASE | re.VERBOSE,
)
_KEPT_BEHIND = re.compile(
    r"""
    [`*)\s]*(?:
        stays?\b|remains?\b|(?:must|should|may|will|is|are|does|do)[ ]not\b|
        (?:(?:is|are)[ ])?(?:unchanged|untouched)\b|alone\b|as[ ](?:it[ ]is|they[ ]are)\b
    )
    """,
    re.IGNORECASE | re.VERBOSE,
)


def find_role(text: str, start: int, end: int) -> FileRole:
    """Tell how a text means the file that it names there; by default it is to be changed."""
    before = _ASIDE.sub(" ", _SENTENCE_END.split(text[max(0, start - _FAR) : start])[-1])
    behind = _SENTENCE_END.split(text[end : end + _FAR])[0]
    if _KEPT_BEHIND.match(behind):
        return FileRole.FORBIDDEN
    cues = [cue.lastgroup for cue in _CUES.finditer(before)]
    return FileRole(cues[-1]) if cues and cues[-1] else FileRole.CHANGED


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


_STRONG = r"depend(?:s|ing|ent)?[ ](?:up)?on|blocked[ ]by"
_CUE = re.compile(
    rf"\b(?:(?P<strong>{_STRONG})|after|once|requires?|needs?|builds?[ ]on|relies[ ]on|"
    r"waits?[ ]for)\b[:]?[ \t\n]*",
    re.IGNORECASE,
)
_EARLIER = re.compile(
    r"(?:all[ ]|both[ ]|each[ ])?(?:of[ ])?(?:the[ ])?(?:tasks?[ ])?"
    r"(?:above|previous|preceding|earlier)\b(?P<one>[ ](?:task|step|one|item)\b)?",
    re.IGNORECASE,
)
_NAME = re.compile(
    r"(?:the[ ])?(?P<noun>(?:tasks?|steps?|story|stories|items?)[ ]*#?)?[`*\"(]*"
    r"(?P<name>[A-Za-z0-9][A-Za-z0-9_-]{0,40}(?:\.[A-Za-z0-9]{1,8}){0,3})[`*\")]*",
    re.IGNORECASE,
)
_AND = re.compile(r"[ \t]*(?:,[ ]*and\b|,|and\b|&|\+|or\b)[ \t]*", re.IGNORECASE)


class StatedOrder(Struct, frozen=True, kw_only=True):
    """The needs that a text states."""

    needs: tuple[str, ...] = ()  # ids
    unclear: str = ""  # the words of a need that names no task; empty if all are clear


def find_stated_order(text: str, names: Mapping[str, str], earlier: Sequence[str]) -> StatedOrder:
    """Read the needs that a text states.

    `names` maps the names of tasks to their ids; `earlier` are the ids before the task, in order.
    """
    text = text[:_LONGEST_TEXT]
    known = {name.upper(): id for name, id in names.items() if _has_digit(name)} | dict(names)
    needs: dict[str, None] = {}
    unclear = ""
    for cue in _CUE.finditer(text):
        if whole := _EARLIER.match(text, cue.end()):
            needs.update(dict.fromkeys(earlier[-1:] if whole["one"] else earlier))
            continue
        named = _read_names(text, cue.end(), known, is_strong=cue["strong"] is not None)
        needs.update(dict.fromkeys(named))
        if cue["strong"] is not None and not named:
            unclear = unclear or " ".join(text[cue.start() : cue.start() + 60].split())
    return StatedOrder(needs=tuple(needs), unclear=unclear)


def _read_names(text: str, at: int, known: Mapping[str, str], *, is_strong: bool) -> list[str]:
    """Read a list of names: `Task 1, 2 and 3`. A bare number needs a noun or a strong cue.

    A name without a digit may be any word, so its letters have to be large and small as in the id.
    """
    names: list[str] = []
    counted = is_strong
    while match := _NAME.match(text, at):
        counted = counted or match["noun"] is not None
        name = match["name"]
        task = known.get(name) or known.get(name.upper() if _has_digit(name) else "")
        if task is None or (name.isdigit() and not counted):
            break
        names.append(task)
        more = _AND.match(text, match.end())
        if more is None:
            break
        at = more.end()
    return names


def _has_digit(name: str) -> bool:
    return any(letter.isdigit() for letter in name)
