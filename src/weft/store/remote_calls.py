"""Functions called from afar: their arguments and answers as JSON, by their type hints.

What travels is a call by name, never code. The first parameter of such a function is given where
it runs: a transaction, a project. How calls travel is left to `remote` and to the server.
"""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
import typing
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any

import msgspec

from weft.errors import InputError
from weft.store.store import VERBS, Verb


class Unreadable(Exception):
    """What came is not what was to come."""


def all_verbs() -> Mapping[str, Verb]:
    """Every verb of every module of the store."""
    package = importlib.import_module("weft.store")
    for module in pkgutil.iter_modules(package.__path__, "weft.store."):
        importlib.import_module(module.name)
    return VERBS


def encode(value: object) -> bytes:
    """JSON of a value: records as objects, all that can be gone through as lists."""
    try:
        return msgspec.json.encode(value, enc_hook=plainly)
    except UnicodeEncodeError:  # half of a character, as others may have written one
        return json.dumps(msgspec.to_builtins(value, enc_hook=plainly)).encode()


def plainly(value: object) -> object:
    """What JSON has no word for, in words it has."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Iterable):
        return list(value)
    raise NotImplementedError(f"a {type(value).__name__} has no JSON")


def decode(data: bytes) -> Any:
    """The other way, as far as JSON goes."""
    try:
        try:
            return msgspec.json.decode(data)
        except msgspec.DecodeError:  # this one takes halves of characters
            return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"it is not JSON: {error}") from error


def convert(value: object, hint: Any) -> Any:
    """What was decoded, as the type it was of."""
    try:
        return msgspec.convert(value, hint, str_keys=True)
    except (msgspec.ValidationError, RecursionError) as error:
        raise Unreadable(str(error)) from error


def _has_nul(called: object) -> bool:
    left = [called]  # no recursion: others decide how deep it goes
    while left:
        match left.pop():
            case str(text) if "\0" in text:
                return True
            case list(values):
                left += values
            case dict(pairs):
                left += [*pairs.keys(), *pairs.values()]
    return False


@cache
def hints_of(function: Callable[..., Any]) -> Mapping[str, Any]:
    return typing.get_type_hints(function)


def arguments_of(
    function: Callable[..., Any], called: object, given: Mapping[str, object]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a call as the function wants them, but for its first.

    What is `given` goes before what the caller says of it: the time, since the clocks of others
    may be wrong, and who asks.
    """
    match called:
        case {"args": list(args), "kwargs": dict(kwargs), **rest} if not rest:
            pass
        case _:
            raise InputError('A call is {"args": […], "kwargs": {…}}, and nothing else.')
    if _has_nul(called):
        raise InputError("There is a NUL in this call; neither a store nor a program takes one.")
    parameters = list(inspect.signature(function).parameters.values())[1:]
    try:
        bound = inspect.Signature(parameters).bind(*args, **kwargs)
    except TypeError as error:
        raise InputError(f"{function.__name__}: {error}.") from error
    hints = hints_of(function)
    for name, value in bound.arguments.items():
        if name in given:
            bound.arguments[name] = given[name]
            continue
        try:
            bound.arguments[name] = convert(value, hints[name])
        except Unreadable as error:
            raise InputError(f"{name} of {function.__name__}: {error}.") from error
    return bound.args, bound.kwargs
