"""JSON with places: a document as a tree of nodes that know their line and column.

The upper levels are parsed here, so that every value in them has a line, a column and a JSON
pointer; deeper levels go to the standard library, which is faster.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

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
        if depth < _DEEP and self._text.startswith("{", at):
            node.value, end = self._object(at, node, depth)
        elif depth < _DEEP and self._text.startswith("[", at):
            node.value, end = self._array(at, node, depth)
        else:
            node.value, end = self._plain(at)
        node.end = end
        return node, end

    def _object(self, at: int, node: Node, depth: int) -> tuple[dict[str, Node], int]:
        members: dict[str, Node] = {}
        at = self._skip(at + 1)
        if self._text.startswith("}", at):
            return members, at + 1
        while True:
            if not self._text.startswith('"', at):
                raise NotJSON("Here a key in double quotes is expected", at)
            key, at = self._plain(at)
            at = self._skip(at)
            if not self._text.startswith(":", at):
                raise NotJSON("Here a colon is expected", at)
            inner, at = self._read(self._skip(at + 1), node, key, depth + 1)
            if key in members:
                self.doubled.append(inner)
            members[key] = inner
            at = self._skip(at)
            if self._text.startswith("}", at):
                return members, at + 1
            if not self._text.startswith(",", at):
                raise NotJSON("Here a comma or a closing brace is expected", at)
            at = self._skip(at + 1)

    def _array(self, at: int, node: Node, depth: int) -> tuple[list[Node], int]:
        elements: list[Node] = []
        at = self._skip(at + 1)
        if self._text.startswith("]", at):
            return elements, at + 1
        while True:
            inner, at = self._read(at, node, len(elements), depth + 1)
            elements.append(inner)
            at = self._skip(at)
            if self._text.startswith("]", at):
                return elements, at + 1
            if not self._text.startswith(",", at):
                raise NotJSON("Here a comma or a closing bracket is expected", at)
            at = self._skip(at + 1)

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
