"""The registry: an operation with its request, the right it needs, its effect and its answer.

    @operation("Skip a task", ADMIN)
    def skip(setting: Occasion, asked: SkipTask) -> ControlResult: ...

The name of the function is the name on every face, its docstring the description. The request is a
record with bounds. The answer is a record; the sentence for people is its `text`, or made from it
by `says`. `http` is the method and path in the HTTP API; the parts of the path in braces are fields
of the request.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final, TypeVar, get_args, get_type_hints

import msgspec
from msgspec import Struct

from weft.errors import WeftError
from weft.operations.identity import LOCAL, OWN, Identity, need
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


Request = TypeVar("Request", bound=Struct)
Given = TypeVar("Given")
Effect = Callable[[Occasion, Any], Any]


@dataclass(frozen=True, kw_only=True)
class Operation:
    name: str
    title: str
    description: str
    right: str  # that a caller needs; OWN: the effect decides
    http: str  # method and path
    status: int  # of the answer over HTTP
    says: Callable[[Any], str]  # the sentence for people
    secret: str  # the field of the answer that is shown once; empty: none
    is_tool: bool  # agents with the right have it as a tool
    confirms: bool  # a GET that changes the store: it marks what was read before
    takes: type[Struct]
    gives: type[Any]
    effect: Effect
    on_repository: bool  # calls git or reads files: it runs outside a transaction

    @property
    def method(self) -> str:
        return self.http.partition(" ")[0]

    @property
    def path(self) -> str:
        return self.http.partition(" ")[2]

    @property
    def looks_only(self) -> bool:
        return self.method == "GET" and not self.confirms

    def parse(self, fields: object) -> Struct:
        """Convert decoded JSON to a request; raise `msgspec.ValidationError`."""
        return msgspec.convert(fields, self.takes)

    def parse_texts(self, texts: Mapping[str, str]) -> dict[str, Any]:
        """Convert parts of an address to fields of the request; leave out unknown names."""
        fields: dict[str, Any] = {}
        for field in msgspec.structs.fields(self.takes):
            name = field.encode_name
            if name in texts:
                try:
                    fields[name] = msgspec.convert(texts[name], field.type, strict=False)
                except msgspec.ValidationError as error:
                    raise msgspec.ValidationError(f"{name}: {error}") from error
        return fields

    def schema(self) -> dict[str, Any]:
        """Return the JSON schema of the request."""
        _, parts = msgspec.json.schema_components([self.takes], ref_template="#/{name}")
        [schema] = parts.values()
        return {name: value for name, value in schema.items() if name != "title"}

    def carry_out(self, setting: Occasion, asked: Struct) -> Any:
        """Check the right of the caller, and do what is asked."""
        if self.right != OWN:
            need(setting.who, self.right)
        return self.effect(setting, asked)

    def perform(
        self, project: Project, store: Store, who: Identity, asked: Struct, *, now: float
    ) -> Any:
        """Carry the operation out in a transaction of its own."""
        if self.on_repository:
            return self.carry_out(Occasion(project=project, store=store, who=who, now=now), asked)
        transact = store.read if self.looks_only else store.write
        return transact(
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


def _find_answer(hint: Any) -> type[Any]:
    """Return the answer of an effect, which may instead return a refusal that keeps its effects."""
    kinds = get_args(hint) or (hint,)
    answer: type[Any] = next(kind for kind in kinds if not issubclass(kind, WeftError))
    return answer


OPERATIONS: Final[dict[str, Operation]] = {}
"""All operations, by name."""


def operation(
    title: str,
    right: str,
    *,
    http: str = "",
    status: int = 200,
    says: Callable[[Any], str] = attrgetter("text"),
    secret: str = "",
    is_tool: bool = True,
    confirms: bool = False,
    on_repository: bool = False,
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
            http=http or f"POST /{name}",
            status=status,
            says=says,
            secret=secret,
            is_tool=is_tool,
            confirms=confirms,
            takes=takes,
            gives=_find_answer(hints["return"]),
            effect=effect,
            on_repository=on_repository,
        )
        return effect

    return register
