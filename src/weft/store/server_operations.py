"""Operations on the repository itself: with `--server` they run on the server.

They read checkouts, branches, agent files or the output of agents, and so run where those are.
Their first parameter is the project; all further parameters travel, as with verbs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Concatenate, Final, ParamSpec, Protocol, TypeVar

from weft.config import Config
from weft.store.store import Kind, Store, Verb, name_of

if TYPE_CHECKING:
    from weft.store.server_client import Server

P = ParamSpec("P")
T = TypeVar("T")


class ServedProject(Protocol):
    """A project: a repository on this machine or on a server."""

    @property
    def root(self) -> Path: ...
    @property
    def config(self) -> Config: ...
    @property
    def environment(self) -> Mapping[str, str]: ...
    @property
    def server(self) -> Server | None: ...
    def open_store(self) -> Store: ...


Where = TypeVar("Where", bound=ServedProject)
Operation = Callable[Concatenate[Where, P], T]

HOSTED: Final[dict[str, Verb]] = {}
"""The operations of the modules imported so far."""


def hosted(kind: Kind) -> Callable[[Operation[Where, P, T]], Operation[Where, P, T]]:
    """Make a function over a project an operation that can run on a server."""

    def decorate(function: Operation[Where, P, T]) -> Operation[Where, P, T]:
        name = name_of(function)
        HOSTED[name] = Verb(name=name, kind=kind, function=function)

        @wraps(function)
        def operation(place: Where, /, *args: P.args, **kwargs: P.kwargs) -> T:
            if place.server is None:
                return function(place, *args, **kwargs)
            from weft.store.remote_calls import hints_of  # late: its imports take time
            from weft.store.remote_store import carry_out

            answer = hints_of(function)["return"]
            done: T = carry_out(place.server, name, args, kwargs, answer)
            return done

        return operation

    return decorate
