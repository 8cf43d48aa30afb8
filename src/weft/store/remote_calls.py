"""Calls by name: their arguments and results as JSON, by their type hints.

A call carries a name, never code. The first parameter of such a function is supplied where it runs:
a transaction, a project. `remote_store` and the server carry the calls.
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
    """JSON that is not of the expected type."""


@cache
def all_verbs() -> Mapping[str, Verb]:
    """Import every module of the store; return its verbs."""
    package = importlib.import_module("weft.store")
    for module in pkgutil.iter_modules(package.__path__, "weft.store."):
        importlib.import_module(module.name)
    return VERBS


def encode(value: object) -> bytes:
    """Encode a value as JSON: records as objects, iterables as lists."""
    try:
        return msgspec.json.encode(value, enc_hook=plainly)
    except UnicodeEncodeError:  # a lone surrogate, in the text of another program
        return json.dumps(msgspec.to_builtins(value, enc_hook=plainly)).encode()


def plainly(value: object) -> object:
    """Convert a value that JSON cannot hold."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Iterable):
        return list(value)
    raise NotImplementedError(f"a {type(value).__name__} has no JSON")


def decode(data: bytes) -> Any:
    """Decode JSON."""
    try:
        try:
            return msgspec.json.decode(data)
        except msgspec.DecodeError:  # this decoder takes lone surrogates
            return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"it is not JSON: {error}") from error


def convert(value: object, hint: Any) -> Any:
    """Convert decoded JSON to the type of a hint."""
    try:
        return msgspec.convert(value, hint, str_keys=True)
    except (msgspec.ValidationError, RecursionError) as error:
        raise Unreadable(str(error)) from error


def _has_nul(called: object) -> bool:
    left = [called]  # no recursion: the caller decides the depth
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
    return typing.get_type_hints(function, include_extras=True)


@cache
def _signature_of(function: Callable[..., Any]) -> inspect.Signature:
    """The parameters of a call: those of the function without the first."""
    return inspect.Signature(list(inspect.signature(function).parameters.values())[1:])


def arguments_of(
    function: Callable[..., Any], called: object, given: Mapping[str, object]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of a call without the first, converted to the function's types.

    Values in `given` replace the caller's: the time, since other clocks may be wrong, and the
    identity.
    """
    match called:
        case {"args": list(args), "kwargs": dict(kwargs), **rest} if not rest:
            pass
        case _:
            raise InputError('A call is {"args": […], "kwargs": {…}}, and nothing else.')
    if _has_nul(called):
        raise InputError("There is a NUL in this call; neither a store nor a program takes one.")
    try:
        bound = _signature_of(function).bind(*args, **kwargs)
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
