"""The values of annotations: lists of paths, needs, stages and resources, and attributes.

`Notes` holds the annotations of a task.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, TypeVar

from weft import stages
from weft.paths import BadPath, normalise
from weft.plan.annotations import LIST_KEYS, Annotation, AnnotationItem
from weft.plan.attributes import ATTRIBUTES, parse_amount
from weft.plan.problems import Problems, shorten

_ARROW = re.compile(r"→|->|>")

_At = TypeVar("_At")

_NONE: Final = frozenset({"none", "None", "NONE"})
_BULLETS: Final = frozenset({"- ", "* ", "+ "})
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
) -> Any | None:
    """Return the value of an annotation; None, with a problem, if it has none of its form."""
    text = annotation.value.strip()
    try:
        return parse(text)
    except ValueError as wrong:
        close = problems.closest(text.lower(), names, cutoff=0.5) if names else None
        problems.error(
            annotation.place,
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
    items = _items(given)
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
        if word in _NONE or word[:2] in _BULLETS:
            return ()
        if word:
            try:
                normalised[normalise(word)] = None
            except BadPath:
                # The slow way reports it with its place.
                return ()
    return tuple(normalised)


def _reads(notes: Notes, given: list[Annotation], problems: Problems) -> None:
    notes.values["reads"] = _paths(_items(given), problems)


def _new(notes: Notes, given: list[Annotation], problems: Problems) -> None:
    notes.values["new"] = _paths(_items(given), problems)


def _items(given: list[Annotation]) -> list[tuple[AnnotationItem, Annotation]]:
    return [(item, annotation) for annotation in given for item in annotation.items()]


def _paths(items: list[tuple[AnnotationItem, Annotation]], problems: Problems) -> tuple[str, ...]:
    return normalise_paths(
        [(each[0].text if each[0].quoted else each[0].text.strip("`'"), each) for each in items],
        lambda at: (*at[1].place_of(at[0]), None),
        problems,
    )


def _depends(notes: Notes, given: list[Annotation], _: Problems) -> None:
    notes.depends = _items(given)


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
            amount = _item_or_report(parse_amount, item.text, annotation, item, problems)
            if amount is not None:
                amounts[amount[0]] = amounts.get(amount[0], 0) + amount[1]
    notes.values["uses"] = MappingProxyType(amounts)


def _item_or_report(
    parse: Callable[[str], Any],
    text: str,
    annotation: Annotation,
    item: AnnotationItem,
    problems: Problems,
) -> Any | None:
    try:
        return parse(text)
    except ValueError as wrong:
        problems.error(
            annotation.place_of(item),
            "bad-value",
            f"{annotation.key}: {shorten(text)!r} is not {wrong}.",
            f"Write {wrong}.",
        )
        return None


_LISTS: Final[Mapping[str, Callable[[Notes, list[Annotation], Problems], None]]] = {
    "files": _files,
    "new": _new,
    "reads": _reads,
    "depends": _depends,
    "stages": _stages,
    "uses": _uses,
}
