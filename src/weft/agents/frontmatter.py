"""The front matter of an agent file: YAML between two lines of `---`, kept with its lines.

Only the structure of YAML is used. A scalar stays the text its author wrote, so that `on`, `1_000`
or `12:30` keep their spelling; `file_values` reads the values. Anchors, aliases, tags and deep
nesting have no use here and are refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import yaml
from msgspec import Struct

from weft.errors import InputError

_FENCE: Final = "---"
_MOST_TEXT: Final = 512 * 1024
_MOST_HEADER: Final = 32 * 1024
_DEEPEST: Final = 4

_PLAIN_TAGS: Final = frozenset(
    f"tag:yaml.org,2002:{kind}"
    for kind in ("str", "int", "float", "bool", "null", "timestamp", "merge", "value", "seq", "map")
)


class Field(Struct, frozen=True):
    """A value and its line. An empty value is the empty text."""

    value: str | tuple[Field, ...] | Mapping[str, Field]
    line: int


class FrontMatter(Struct, frozen=True):
    fields: Mapping[str, Field]
    body: str
    body_line: int  # of the file, counted from 1


def fail(file: str, line: int, message: str) -> InputError:
    return InputError(f"{file}, line {line}: {message}")


def read(text: str, file: str) -> FrontMatter:
    if len(text) > _MOST_TEXT:
        raise fail(file, 1, f"the file is larger than {_MOST_TEXT // 1024} KiB.")
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    if lines[0].rstrip() != _FENCE:
        raise fail(file, 1, "an agent file starts with its settings between two lines of ---.")
    end = next((i for i, line in enumerate(lines[1:], 1) if line.rstrip() == _FENCE), None)
    if end is None:
        raise fail(file, 1, "the settings that start here are not closed by a line of ---.")
    header = "\n".join(lines[1:end])
    if len(header) > _MOST_HEADER:
        raise fail(file, 1, f"the settings are larger than {_MOST_HEADER // 1024} KiB.")
    return FrontMatter(_fields(header, file), "\n".join(lines[end + 1 :]), end + 2)


def _fields(header: str, file: str) -> Mapping[str, Field]:
    try:
        _refuse_cleverness(yaml.parse(header, yaml.SafeLoader), file)
        node = yaml.compose(header, yaml.SafeLoader)
    except yaml.reader.ReaderError as error:
        line = header.count("\n", 0, error.position) + 2
        raise fail(file, line, f"the character {error.character!r} is not allowed.") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = error.problem or error.context
        raise fail(file, mark.line + 2 if mark else 2, f"not valid YAML: {problem}.") from error
    if node is None:
        return {}
    field = _field(node, file)
    if not isinstance(field.value, Mapping):
        raise fail(file, field.line, "the settings must be lines of `key: value`.")
    return field.value


def _refuse_cleverness(events: Iterable[yaml.Event], file: str) -> None:
    """Check the events first: they come in order, before the parser builds or expands any node."""
    depth = 0
    for event in events:
        line = event.start_mark.line + 2 if event.start_mark else 2
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise fail(file, line, "anchors and aliases (& and *) are not allowed; quote the text.")
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST:
            raise fail(file, line, "the settings are nested too deeply.")


def _field(node: yaml.Node, file: str) -> Field:
    line = node.start_mark.line + 2
    if node.tag not in _PLAIN_TAGS:
        raise fail(file, line, f"the tag {node.tag!r} is not allowed.")
    if isinstance(node, yaml.SequenceNode):
        return Field(tuple(_field(item, file) for item in node.value), line)
    if isinstance(node, yaml.MappingNode):
        return Field(_mapping(node, file), line)
    empty = node.tag.endswith(":null") and node.value in ("", "~", "null")
    return Field("" if empty else str(node.value), line)


def _mapping(node: yaml.MappingNode, file: str) -> Mapping[str, Field]:
    fields: dict[str, Field] = {}
    for key, value in node.value:
        name = _field(key, file)
        if not isinstance(name.value, str):
            raise fail(file, name.line, "a key must be a plain word.")
        if name.value in fields:
            before = fields[name.value].line
            raise fail(file, name.line, f"{name.value!r} was given before, on line {before}.")
        fields[name.value] = Field(_field(value, file).value, name.line)
    return fields
