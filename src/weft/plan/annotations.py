"""Finding HTML comments in lines of Markdown, with their places.

Only looks at lines it is given: which lines are code is the block parser's business. Inside a
paragraph a comment may still stand in a code span, and then it is an example, not a comment.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeVar

from weft import stages
from weft.paths import BadPath, normalise
from weft.plan.attributes import ATTRIBUTES, parse_amount
from weft.plan.problems import Problems, shorten
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


_ARROW = re.compile(r"→|->|>")

_At = TypeVar("_At")

_NONE: Final = frozenset({"none", "None", "NONE"})
_BULLET_STARTS: Final = frozenset({"- ", "* ", "+ "})
_LONGEST_PATH: Final = 4096
_DEEPEST_PATH: Final = 60
_BETTER_PATH: Final = "Write it relative to the root of the repository, such as src/app.py."


class Notes:
    """The annotations of a task, as far as they could be understood."""

    def __init__(self) -> None:
        self.first: dict[str, Annotation] = {}  # the first annotation of each key
        self.depends: list[tuple[AnnotationItem, Annotation]] = []
        self.values: dict[str, Any] = {"files": None}  # other values, by the fields of PlanTask


def read_notes(annotations: Iterable[Annotation], problems: Problems) -> Notes:
    """Read the annotations of a task; a repeated key adds to a list and is an error elsewhere."""
    notes = Notes()
    by_key: dict[str, list[Annotation]] = {}
    for annotation in annotations:
        by_key.setdefault(annotation.key, []).append(annotation)
    for key, given in by_key.items():
        notes.first[key] = given[0]
        if key in LIST_KEYS:
            _LISTS[key](notes, given, problems)
            continue
        for repeated in given[1:]:
            problems.error(
                repeated.place,
                "repeated-key",
                f"{key!r} was given before, on line {given[0].place[0]}.",
                "Keep one of the two.",
            )
        attribute = ATTRIBUTES[key]
        value = parse_or_report(attribute.parse, given[0], problems, attribute.names)
        if value is not None:
            notes.values[attribute.field] = value
    if new := notes.values.get("new"):
        notes.values["files"] = tuple(dict.fromkeys((*(notes.values["files"] or ()), *new)))
    return notes


def parse_or_report(
    parse: Callable[[str], Any],
    annotation: Annotation,
    problems: Problems,
    names: Sequence[str] = (),
    item: AnnotationItem | None = None,
) -> Any | None:
    """Return the value of an annotation, or of an item of it; None, with a problem, if it has none
    of its form."""
    text = annotation.value.strip() if item is None else item.text
    try:
        return parse(text)
    except ValueError as wrong:
        close = problems.closest(text.lower(), names, cutoff=0.5) if names else None
        problems.error(
            annotation.place if item is None else annotation.place_of(item),
            "bad-value",
            f"{annotation.key}: {shorten(text)!r} is not {wrong}.",
            f"Did you mean {close!r}?" if close else f"Write {wrong}.",
        )
        return None


def normalise_paths(
    items: Iterable[tuple[str, _At]],
    place: Callable[[_At], tuple[int, int, str | None]],
    problems: Problems,
) -> tuple[str, ...]:
    """Normalise paths and patterns; `place` gives line, column and pointer of a bad path."""
    normalised: dict[str, None] = {}
    for text, at in items:
        try:
            normalised[_normalised(text)] = None
        except BadPath as wrong:
            line, column, pointer = place(at)
            problems.error((line, column), "bad-path", str(wrong), _BETTER_PATH, pointer)
    return tuple(normalised)


def _normalised(text: str) -> str:
    if len(text) > _LONGEST_PATH or text.count("/") > _DEEPEST_PATH:
        raise BadPath(f"The path {shorten(text)!r} is too long.")
    return normalise(text)


def _files(notes: Notes, given: list[Annotation], problems: Problems) -> None:
    if len(given) == 1 and (plain := _plain_paths(given[0].value)):
        notes.values["files"] = plain
        return
    items = _list_items(given)
    if any(item.text in _NONE and not item.quoted for item, _ in items):
        if len(items) == 1:
            notes.values["files"] = ()
            return
        problems.error(
            given[0].place,
            "bad-value",
            "`files: none` claims no file, and cannot be combined with files.",
            'Remove one of the two; a file called none is written "none".',
        )
    notes.values["files"] = _paths(items, problems) or None


def _plain_paths(value: str) -> tuple[str, ...]:
    """Return the paths of a list without quotes, bullets or line ends; () for any other list."""
    too_long = len(value) > _LONGEST_PATH or value.count("/") > _DEEPEST_PATH
    if too_long or "\n" in value or '"' in value or "'" in value or "`" in value:
        return ()
    normalised: dict[str, None] = {}
    for part in value.split(","):
        word = part.strip()
        if word in _NONE or word[:2] in _BULLET_STARTS:
            return ()
        if word:
            try:
                normalised[normalise(word)] = None
            except BadPath:
                # The slow way reports it with its place.
                return ()
    return tuple(normalised)


def _other_files(notes: Notes, given: list[Annotation], problems: Problems) -> None:
    notes.values[given[0].key] = _paths(_list_items(given), problems)


def _list_items(given: list[Annotation]) -> list[tuple[AnnotationItem, Annotation]]:
    return [(item, annotation) for annotation in given for item in annotation.items()]


def _paths(items: list[tuple[AnnotationItem, Annotation]], problems: Problems) -> tuple[str, ...]:
    return normalise_paths(
        [(each[0].text if each[0].quoted else each[0].text.strip("`'"), each) for each in items],
        lambda at: (*at[1].place_of(at[0]), None),
        problems,
    )


def _depends(notes: Notes, given: list[Annotation], _: Problems) -> None:
    notes.depends = _list_items(given)


def _stages(notes: Notes, given: list[Annotation], problems: Problems) -> None:
    words = [
        (word.strip(), annotation.place_of(item))
        for annotation in given
        for item in annotation.items()
        for word in _ARROW.split(item.text)
    ]
    names = tuple(word for word, _ in words)
    fault = stages.find_fault(names)
    if fault is None:
        notes.values["stages"] = names
        return
    where = words[fault.place][1] if words else given[0].place
    close = problems.closest(names[fault.place], stages.STAGES, cutoff=0.6) if words else None
    problems.error(
        where,
        "bad-stages",
        f"stages: {shorten(', '.join(names))!r} cannot be: {fault.why}.",
        f"Did you mean {close!r}?"
        if close and close not in names
        else f"{stages.RULE[0].upper()}{stages.RULE[1:]}.",
    )


def _uses(notes: Notes, given: list[Annotation], problems: Problems) -> None:
    amounts: dict[str, float] = {}
    for annotation in given:
        for item in annotation.items():
            amount = parse_or_report(parse_amount, annotation, problems, item=item)
            if amount is not None:
                amounts[amount[0]] = amounts.get(amount[0], 0) + amount[1]
    notes.values["uses"] = MappingProxyType(amounts)


_LISTS: Final[Mapping[str, Callable[[Notes, list[Annotation], Problems], None]]] = {
    "files": _files,
    "new": _other_files,
    "reads": _other_files,
    "depends": _depends,
    "stages": _stages,
    "uses": _uses,
}
