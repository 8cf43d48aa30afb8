"""Typed access to the fields of a JSON document; a value of a wrong type is reported."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from weft.model import Priority
from weft.plan.annotation_values import normalise_paths
from weft.plan.attributes import JSON_ATTRIBUTES, Attribute, parse_phrase, parse_priority
from weft.plan.json_document import JsonDocument, Node
from weft.plan.plan_records import NO_FILES, PlanTask
from weft.plan.problems import Problems, shorten

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
