"""The JSON that a face shows for a record, derived from the record's own fields.

A face names only the differences: fields that it hides, renames or computes. A new field of a
record is public in every face that does not hide it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, reduce
from operator import or_
from types import UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Struct, field

from weft.model import Class, Priority

_BY_NAME: Final = (Class, Priority)
"""Enumerations that are numbers in the store and names for clients."""


class Shape(Struct, frozen=True, kw_only=True):
    """The differences between a record and its public form."""

    name: str = ""  # in documents; empty: the record's own
    hidden: frozenset[str] = frozenset()
    renamed: Mapping[str, str] = field(default_factory=dict)
    computed: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)  # with return types


class Face:
    def __init__(self, shapes: Mapping[type[Struct], Shape]) -> None:
        self._shapes = shapes
        self.describe = cache(self._describe)

    def show(self, value: Any) -> Any:
        """Return the public form of a value; a record without differences stays itself."""
        if isinstance(value, Struct):
            return self._show_record(value)
        if isinstance(value, _BY_NAME):
            return value.name.lower()
        if isinstance(value, frozenset):
            return sorted(value)
        if isinstance(value, list | tuple):
            return [self.show(item) for item in value]
        if isinstance(value, Mapping):
            return {key: self.show(item) for key, item in value.items()}
        return value

    def _show_record(self, record: Struct) -> Any:
        kind = type(record)
        if self.describe(kind) is kind:
            return record
        shape = self._shapes.get(kind, _PLAIN)
        shown = {
            shape.renamed.get(name, name): self.show(getattr(record, name))
            for name in kind.__struct_fields__
            if name not in shape.hidden
        }
        return shown | {name: self.show(get(record)) for name, get in shape.computed.items()}

    def _describe(self, hint: Any) -> Any:
        """Return the type of the public form of a type, for schemas."""
        if hint in _BY_NAME:
            return Literal[tuple(member.name.lower() for member in hint)]
        if isinstance(hint, type) and issubclass(hint, Struct):
            return self._describe_record(hint)
        parts = get_args(hint)
        described = tuple(self.describe(part) for part in parts)
        if described == parts or get_origin(hint) is Literal:
            return hint
        origin = get_origin(hint)
        return reduce(or_, described) if origin in (Union, UnionType) else origin[described]

    def _describe_record(self, kind: type[Struct]) -> type[Struct]:
        own = {info.name: info.type for info in msgspec.structs.fields(kind)}
        described = {name: self.describe(hint) for name, hint in own.items()}
        shape = self._shapes.get(kind, _PLAIN)
        if shape is _PLAIN and described == own:
            return kind
        fields = [
            (shape.renamed.get(name, name), hint)
            for name, hint in described.items()
            if name not in shape.hidden
        ]
        fields += [
            (name, self.describe(get_type_hints(get)["return"]))
            for name, get in shape.computed.items()
        ]
        return msgspec.defstruct(
            shape.name or kind.__name__, fields, namespace={"__doc__": kind.__doc__}, kw_only=True
        )


_PLAIN: Final = Shape()
