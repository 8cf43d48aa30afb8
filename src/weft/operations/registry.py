"""The registry: an operation with its request, the right it needs, its effect and its answer.

    @operation("Skip a task", ADMIN)
    def skip(setting: Occasion, asked: SkipTask) -> ControlResult: ...

The name of the function is the name on every face, its docstring the description. The request is a
record with bounds; the answer is a record with the sentence for people as `text`.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar, get_type_hints

import msgspec
from msgspec import Struct

from weft.operations.identity import LOCAL, Identity, need
from weft.project.project import Project
from weft.store import Store
from weft.store.store import BoundStore


@dataclass(frozen=True, kw_only=True)
class Occasion:
    """The place and time of an operation, and its caller."""

    project: Project
    store: Store  # bound to the transaction, unless the operation works on the repository
    who: Identity
    now: float


class Answer(Protocol):
    @property
    def text(self) -> str:
        """The sentence for people."""
        ...


Request = TypeVar("Request", bound=Struct)
Given = TypeVar("Given", bound=Answer)
Effect = Callable[[Occasion, Any], Any]


@dataclass(frozen=True, kw_only=True)
class Operation:
    name: str
    title: str
    description: str
    right: str  # the scope that a token needs
    takes: type[Struct]
    gives: type[Any]
    effect: Effect
    on_repository: bool  # calls git or reads files: it runs outside a transaction

    def parse(self, fields: object) -> Struct:
        """Convert decoded JSON to a request; raise `msgspec.ValidationError`."""
        return msgspec.convert(fields, self.takes)

    def schema(self) -> dict[str, Any]:
        """Return the JSON schema of the request."""
        _, parts = msgspec.json.schema_components([self.takes], ref_template="#/{name}")
        [schema] = parts.values()
        return {name: value for name, value in schema.items() if name != "title"}

    def carry_out(self, setting: Occasion, asked: Struct) -> Any:
        """Check the right of the caller, and do what is asked."""
        need(setting.who, self.right)
        return self.effect(setting, asked)

    def perform(
        self, project: Project, store: Store, who: Identity, asked: Struct, *, now: float
    ) -> Any:
        """Carry the operation out in a transaction of its own."""
        if self.on_repository:
            return self.carry_out(Occasion(project=project, store=store, who=who, now=now), asked)
        return store.write(
            lambda tx: self.carry_out(
                Occasion(project=project, store=BoundStore(store, tx), who=who, now=now),
                asked,
            )
        )


def ask(project: Project, store: Store, name: str, asked: Struct) -> Any:
    """Carry out an operation for this user: here, or on the server of the project."""
    operation = OPERATIONS[name]
    if project.server is None:
        return operation.perform(project, store, LOCAL, asked, now=time.time())
    from weft.store.remote_store import ask_operation  # late: its imports take time

    return ask_operation(project.server, name, asked, operation.gives)


OPERATIONS: Final[dict[str, Operation]] = {}
"""All operations, by name."""


def operation(
    title: str, right: str, *, on_repository: bool = False
) -> Callable[[Callable[[Occasion, Request], Given]], Callable[[Occasion, Request], Given]]:
    """Register a function as an operation; `title` is for lists that people read."""

    def register(
        effect: Callable[[Occasion, Request], Given],
    ) -> Callable[[Occasion, Request], Given]:
        hints: Mapping[str, Any] = get_type_hints(effect)
        [_, takes] = [hint for name, hint in hints.items() if name != "return"]
        name = effect.__name__
        OPERATIONS[name] = Operation(
            name=name,
            title=title,
            description=" ".join((inspect.getdoc(effect) or "").split()),
            right=right,
            takes=takes,
            gives=hints["return"],
            effect=effect,
            on_repository=on_repository,
        )
        return effect

    return register
