"""JSON with places: a document as a tree of nodes that know their line and column.

The upper levels are parsed here, so that every value in them has a line, a column and a JSON
pointer; deeper levels go to the standard library, which is faster.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, TypeVar

from weft.errors import InputError
from weft.model import Priority
from weft.plan.annotations import normalise_paths
from weft.plan.attributes import JSON_ATTRIBUTES, Attribute, parse_phrase, parse_priority
from weft.plan.plan_records import NO_FILES, PlanTask
from weft.plan.problems import Problems, shorten
from weft.plan.source import Positions, without_surrogates

_BLANKS = re.compile(r"[ \t\n\r]*")
_DEEP: Final = 8
"""root, tag, tasks, task, subtasks, subtask, metadata, files."""

MOST_VALUES: Final = 300_000
_LONGEST_KEY: Final = 60


class NotJSON(Exception):
    """The text is no JSON document that we read."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.message = message
        self.offset = offset


class Node:
    """A value and its place; objects and lists hold nodes."""

    __slots__ = ("at", "end", "key", "parent", "value")

    def __init__(self, at: int, parent: Node | None, key: str | int) -> None:
        self.at = at  # offset into the text
        self.end = at  # offset behind the value
        self.parent = parent
        self.key = key
        self.value: Any = None

    @property
    def pointer(self) -> str:
        """The JSON pointer to this value; very long keys are cut."""
        steps: list[str] = []
        node: Node = self
        while node.parent is not None:
            key = str(node.key)[:_LONGEST_KEY]
            steps.append(key.replace("~", "~0").replace("/", "~1"))
            node = node.parent
        return "".join(f"/{step}" for step in reversed(steps))


class JsonDocument:
    def __init__(self, text: str) -> None:
        """Read a whole document, or raise `NotJSON`."""
        self._text = text
        self._count = 0
        self._positions = Positions(text)
        self.doubled: list[Node] = []  # values whose key was given before
        try:
            self.root, end = self._read(self._skip(0), None, 0, 0)
        except RecursionError:
            raise NotJSON("It is nested too deeply", 0) from None
        end = self._skip(end)
        if end != len(text):
            raise NotJSON("There is something behind the document", end)

    def place(self, node: Node) -> tuple[int, int]:
        return self._positions.of(node.at)

    def _read(self, at: int, parent: Node | None, key: str | int, depth: int) -> tuple[Node, int]:
        self._count += 1
        if self._count > MOST_VALUES:
            raise NotJSON(f"It holds more than {MOST_VALUES:,} values", at)
        node = Node(at, parent, key)
        if depth < _DEEP and self._text.startswith(("{", "["), at):
            node.value, end = self._members(at, node, depth)
        else:
            node.value, end = self._plain(at)
        node.end = end
        return node, end

    def _members(self, at: int, node: Node, depth: int) -> tuple[Any, int]:
        """Read the members of an object or the elements of a list."""
        is_object = self._text[at] == "{"
        closing = "}" if is_object else "]"
        members: dict[str, Node] = {}
        elements: list[Node] = []
        at = self._skip(at + 1)
        while not self._text.startswith(closing, at) or members or elements:
            key: str | int = len(elements)
            if is_object:
                if not self._text.startswith('"', at):
                    raise NotJSON("Here a key in double quotes is expected", at)
                key, at = self._plain(at)
                at = self._skip(at)
                if not self._text.startswith(":", at):
                    raise NotJSON("Here a colon is expected", at)
                at = self._skip(at + 1)
            inner, at = self._read(at, node, key, depth + 1)
            if isinstance(key, int):
                elements.append(inner)
            else:
                if key in members:
                    self.doubled.append(inner)
                members[key] = inner
            at = self._skip(at)
            if self._text.startswith(closing, at):
                break
            if not self._text.startswith(",", at):
                name = "brace" if is_object else "bracket"
                raise NotJSON(f"Here a comma or a closing {name} is expected", at)
            at = self._skip(at + 1)
        return (members if is_object else elements), at + 1

    def _plain(self, at: int) -> tuple[Any, int]:
        try:
            value, end = _DECODER.raw_decode(self._text, at)
        except json.JSONDecodeError as wrong:
            raise NotJSON(_sentence(wrong.msg), wrong.pos) from None
        except ValueError as wrong:
            # A number of thousands of digits, or NaN.
            raise NotJSON(_sentence(str(wrong)), at) from None
        return (without_surrogates(value) if isinstance(value, str) else value), end

    def _skip(self, at: int) -> int:
        blanks = _BLANKS.match(self._text, at)
        return blanks.end() if blanks else at


def _sentence(message: str) -> str:
    return message[:1].upper() + message[1:].rstrip(".:")


def _refuse(word: str) -> Any:
    raise ValueError(f"{word} is no JSON number")


_DECODER: Final = json.JSONDecoder(parse_constant=_refuse)


_T = TypeVar("_T")


def spellings(keys: Iterable[str], aliases: Mapping[str, str]) -> dict[str, str]:
    """Map every accepted spelling, without case and underscores, to the key it means."""
    own = {_plain(key): key for key in keys}
    return {alias: key for alias, key in aliases.items() if key in own.values()} | own


class Fields:
    """The fields of a document that begins on line `first_line` of its file."""

    def __init__(self, document: JsonDocument, problems: Problems, first_line: int = 1) -> None:
        self.document = document
        self.problems = problems
        self._first_line = first_line

    def place(self, node: Node) -> tuple[int, int]:
        line, column = self.document.place(node)
        return line + self._first_line - 1, column

    def error(self, node: Node, code: str, message: str, suggestion: str) -> None:
        self.problems.error(self.place(node), code, message, suggestion, node.pointer)

    def warn(self, node: Node, code: str, message: str, suggestion: str) -> None:
        self.problems.warn(self.place(node), code, message, suggestion, node.pointer)

    def object(self, node: Node, known: Mapping[str, str], what: str) -> dict[str, Node]:
        """Return the fields of an object under the names weft has for them."""
        if not isinstance(node.value, dict):
            self.error(node, "bad-value", f"Here {what} is expected, as an object.", "Write {…}.")
            return {}
        fields: dict[str, Node] = {}
        for key, value in node.value.items():
            own = known.get(_plain(key))
            if own is None:
                self._suspect_misspelling(key, value, known, what)
            elif own in fields:
                self.error(value, "repeated-key", f"{own!r} is given twice.", "Keep one of them.")
            else:
                fields[own] = value
        return fields

    def word(self, node: Node) -> str:
        """Return a short name, or "" if the value is none; numbers serve as names too."""
        value = node.value
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        if isinstance(value, str) and value.strip():
            return self.parsed(node, parse_phrase) or ""
        self.error(node, "bad-value", "Here a name is expected.", 'Write it as "…".')
        return ""

    def text(self, node: Node | None) -> str:
        if node is None or node.value is None:
            return ""
        if not isinstance(node.value, str):
            self.error(node, "bad-value", "Here text is expected.", 'Write it as "…".')
            return ""
        return node.value.replace("\0", "�")

    def listed(self, node: Node | None) -> list[Node]:
        if node is None or node.value is None:
            return []
        if isinstance(node.value, list):
            return node.value
        self.error(node, "bad-value", "Here a list is expected.", "Write […].")
        return []

    def strings(self, node: Node | None) -> list[str]:
        if node is not None and isinstance(node.value, str):
            return [self.text(node)]
        return [self.text(each) for each in self.listed(node)]

    def flag(self, node: Node | None) -> bool:
        if node is None or node.value is None:
            return False
        if not isinstance(node.value, bool):
            self.error(node, "bad-value", "Here true or false is expected.", "Write true or false.")
            return False
        return node.value

    def files(self, node: Node | None) -> tuple[str, ...] | None:
        """Return patterns; () for "none", None if the field is absent."""
        alone = node is not None and isinstance(node.value, str)
        nodes = [node] if node is not None and alone else self.listed(node)
        if len(nodes) == 1 and nodes[0].value in ("none", "None"):
            return ()
        patterns = normalise_paths(
            [(text, each) for each in nodes if (text := self.text(each))],
            lambda each: (*self.place(each), each.pointer),
            self.problems,
        )
        return patterns or None

    def priority(self, node: Node | None) -> Priority:
        if node is None or node.value is None:
            return Priority.NORMAL
        if isinstance(node.value, int) and not isinstance(node.value, bool):
            # 0 comes first; 4 is the lowest.
            return Priority(min(max(node.value, 0), Priority.BACKGROUND))
        if isinstance(node.value, str) and node.value.lower() == "medium":
            return Priority.NORMAL
        return self.parsed(node, parse_priority) or Priority.NORMAL

    def parsed(self, node: Node | None, parse: Callable[[str], _T]) -> _T | None:
        text = self.text(node).strip()
        if node is None or not isinstance(node.value, str):
            return None
        try:
            return parse(text)
        except ValueError as wrong:
            self.error(node, "bad-value", f"{shorten(text)!r} is not {wrong}.", f"Write {wrong}.")
            return None

    def attributes(self, given: Mapping[str, Node]) -> dict[str, Any]:
        """Parse the attributes among the fields of an object; return them by field of PlanTask."""
        return {
            attribute.field: value
            for key, attribute in JSON_ATTRIBUTES.items()
            if (value := self._attribute(given.get(key), attribute)) is not None
        }

    def _attribute(self, node: Node | None, attribute: Attribute) -> Any | None:
        if not attribute.many or node is None or not isinstance(node.value, list):
            return self.parsed(node, attribute.parse)
        values = (self.parsed(each, attribute.parse) or () for each in node.value)
        return tuple(dict.fromkeys(itertools.chain.from_iterable(values)))

    def report_no_files(self, node: Node, task: PlanTask, cure: str) -> None:
        if task.files is None and not task.settled:
            self.warn(
                node,
                NO_FILES,
                f"{shorten(task.id)} does not say which files it changes, so it runs alone.",
                cure,
            )

    def _suspect_misspelling(
        self, key: str, value: Node, known: Mapping[str, str], what: str
    ) -> None:
        close = self.problems.closest(_plain(key), known)
        if close:
            self.warn(
                value,
                "unknown-key",
                f"{shorten(key)!r} is no key of {what}, and is ignored.",
                f"Did you mean {known[close]!r}?",
            )


def _plain(key: str) -> str:
    return key.replace("_", "").replace("-", "").lower()


_BOM: Final = "\ufeff"
Change = tuple[str, Any]  # a key and its new value
Edit = tuple[int, int, str]  # a range of the text and its replacement


def edit_objects(
    name: str,
    data: bytes,
    find_objects: Callable[[Fields], dict[str, Node]],
    list_changes: Callable[[str, Mapping[str, Node]], Iterable[Change]],
) -> tuple[bytes, set[str]]:
    """Return the file with these changes of its objects, and the ids of all of them."""
    text = data.decode("utf-8", "surrogateescape")
    lead = _BOM if text.startswith(_BOM) else ""
    text = text.removeprefix(_BOM)
    try:
        document = JsonDocument(text)
    except NotJSON as wrong:
        # An author may be in the middle of an edit: the caller tries again.
        raise InputError(f"{name} is no JSON at present: {wrong.message}.") from wrong
    objects = find_objects(Fields(document, Problems(name)))
    edits = [
        edit
        for id, node in objects.items()
        if isinstance(node.value, dict)
        for edit in _edit(text, node, list_changes(id, node.value))
    ]
    for start, end, replacement in sorted(edits, reverse=True):
        text = text[:start] + replacement + text[end:]
    return (lead + text).encode("utf-8", "surrogateescape"), set(objects)


def _edit(text: str, node: Node, changes: Iterable[Change]) -> Iterator[Edit]:
    """Replace values of an object; add the missing values behind its last value, as it is set."""
    members: dict[str, Node] = node.value
    added = ""
    last = max((member.end for member in members.values()), default=node.at + 1)
    gap = text[node.at + 1 : text.index('"', node.at)] if members else ""
    for key, value in changes:
        written = json.dumps(value, ensure_ascii=False)
        spelling = find_spelling(members, key)
        if spelling is None:
            added += f',{gap or " "}"{key}": {written}'
        elif members[spelling].value != value:
            yield members[spelling].at, members[spelling].end, written
    if added:
        yield last, last, added if members else added[1:].lstrip()


def find_spelling(members: Mapping[str, Node], key: str) -> str | None:
    """Return a key as the author of an object has spelt it."""
    plain = key.replace("_", "").lower()
    return next((name for name in members if name.replace("_", "").lower() == plain), None)
