"""Values that have the type of a hint, and the most hostile content that it allows."""

from __future__ import annotations

import enum
import types
import typing
from collections.abc import Mapping
from typing import Any, Literal

import msgspec


def make_value(hint: Any, text: str, depth: int = 0) -> Any:
    """Make the JSON of a value with this text wherever a text may be."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return _make_annotated(arguments, text, depth)
    if origin is Literal:
        return arguments[0]
    if origin in (typing.Union, types.UnionType):
        kinds = [kind for kind in arguments if kind is not type(None)]
        return None if depth > 6 and type(None) in arguments else make_value(kinds[0], text, depth)
    if origin in (dict, Mapping):
        return (
            {}
            if depth > 6
            else {_key(arguments[0], text): make_value(arguments[1], text, depth + 1)}
        )
    if origin is tuple and arguments[-1] is not Ellipsis:
        return [make_value(argument, text, depth + 1) for argument in arguments]
    if origin is not None and arguments:  # a sequence
        return [] if depth > 6 else [make_value(arguments[0], text, depth + 1)]
    return _make_plain(hint, text, depth)


def _make_annotated(arguments: tuple[Any, ...], text: str, depth: int) -> Any:
    value = make_value(arguments[0], text, depth)
    try:
        msgspec.convert(value, typing.Annotated[arguments])
    except msgspec.ValidationError:
        return "0" * 32 if isinstance(value, str) else value
    return value


def _key(hint: Any, text: str) -> str:
    return "1" if hint is int else str(make_value(hint, text))


def _make_plain(hint: Any, text: str, depth: int) -> Any:
    if isinstance(hint, typing.NewType):
        return make_value(hint.__supertype__, text, depth)
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return next(iter(hint)).value
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return _make_record(hint, text, depth)
    if isinstance(hint, type) and issubclass(hint, tuple):
        named = typing.get_type_hints(hint, include_extras=True)
        return [make_value(kind, text, depth + 1) for kind in named.values()]
    plain: dict[Any, Any] = {
        bool: True, int: 1, float: 1.0, bytes: "eA==", type(None): None, Any: text, object: text
    }  # fmt: skip
    return plain.get(hint, text)


def _make_record(kind: type[msgspec.Struct], text: str, depth: int) -> dict[str, Any]:
    hints = typing.get_type_hints(kind, include_extras=True)
    record = {
        field.encode_name: make_value(hints[field.name], text, depth + 1)
        for field in msgspec.structs.fields(kind)
        if depth < 7 or field.required
    }
    tag = kind.__struct_config__.tag
    if tag is not None:
        record[str(kind.__struct_config__.tag_field)] = tag
    return record
