"""The routes of the operations, derived from the registry.

The request comes from the parts of the path, from the query of a GET and else from the body.
"""

from __future__ import annotations

import re
import time
from typing import Any, Final

import msgspec
from fastapi import APIRouter, Request, Response

from weft.api.http import problem_details, wire
from weft.api.http.openapi import answers
from weft.api.http.problem_details import MALFORMED
from weft.api.http.requests import (
    ShownOnce,
    act,
    act_slowly,
    in_slow_thread,
    look,
    parts_of,
)
from weft.operations.identity import OWN, Identity
from weft.operations.operation_list import OPERATIONS
from weft.operations.registry import Occasion, Operation
from weft.store import Store

router = APIRouter(tags=["operations"])

_MEMBER: Final = "x-weft-agent"
_ME: Final = "me"  # the field of a request that the header names


def _add_route(operation: Operation) -> None:
    async def endpoint(request: Request) -> Response:
        return await _answer(request, operation)

    router.add_api_route(
        operation.path,
        endpoint,
        methods=[operation.method],
        name=operation.name,
        status_code=operation.status,
        summary=operation.title,
        description=operation.description,
        openapi_extra=_describe(operation),
    )


def _describe(operation: Operation) -> dict[str, Any]:
    """Return the parameters, the body and the answer of an operation for the document."""
    schema = operation.schema()
    in_path = re.findall(r"{(\w+)}", operation.path)
    fields: dict[str, Any] = schema["properties"]
    required = [name for name in schema.get("required", ()) if name not in in_path]
    extra = {} if operation.gives is type(None) else answers(operation.gives)
    asks = operation.method == "GET"
    shown = [name for name in fields if name != _ME] if asks else in_path
    extra["parameters"] = [
        {
            "name": name,
            "in": "path" if name in in_path else "query",
            "required": name in in_path or name in required,
            "schema": fields[name],
        }
        for name in shown
    ]
    rest = {name: value for name, value in fields.items() if name not in (*in_path, _ME)}
    if rest and not asks:
        body = {**schema, "properties": rest, "required": required}
        content = {"application/json": {"schema": body}}
        extra["requestBody"] = {"content": content, "required": bool(required)}
    return extra


async def _answer(request: Request, operation: Operation) -> Response:
    try:
        asked = operation.parse(await _read_fields(request, operation))
    except msgspec.ValidationError as error:
        return problem_details.answer(422, problem_details.storable(f"{error}."), MALFORMED)
    except (msgspec.DecodeError, RecursionError):
        return problem_details.answer(400, "The body is not JSON.")
    parts, status = parts_of(request), operation.status

    def work(store: Store, who: Identity, now: float) -> object:
        setting = Occasion(project=parts.project, store=store, who=who, now=now)
        return _show(operation, operation.carry_out(setting, asked))

    if operation.on_repository:

        async def slowly(who: Identity) -> object:
            def perform() -> object:
                return operation.perform(parts.project, parts.store, who, asked, now=time.time())

            return _show(operation, await in_slow_thread(request, perform))

        return await act_slowly(request, OWN, slowly, status=status)
    if operation.looks_only:
        return await look(request, OWN, work)
    return await act(request, OWN, work, status=status)


async def _read_fields(request: Request, operation: Operation) -> object:
    named = operation.parse_texts(request.path_params)
    if _ME in operation.takes.__struct_fields__ and _MEMBER in request.headers:
        named[_ME] = request.headers[_MEMBER]
    if operation.method == "GET":
        return {**operation.parse_texts(request.query_params), **named}
    fields = msgspec.json.decode(await request.body() or b"{}")
    if isinstance(fields, dict):
        for name in named.keys() & fields.keys():
            raise msgspec.ValidationError(f"{name} is part of the path")
        return {**fields, **named}
    return fields


def _show(operation: Operation, done: object) -> object:
    shown: Any = wire.show(done)
    if not operation.secret:
        return shown
    plain = msgspec.to_builtins(shown)
    return ShownOnce(shown=plain, kept={**plain, operation.secret: ""})


for _operation in OPERATIONS.values():
    _add_route(_operation)
