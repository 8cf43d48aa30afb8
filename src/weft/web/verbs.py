"""The store's verbs and the repository's operations, called by name: what `weft --server` uses.

    POST /v1/verbs/tasks.get_task         {"args": [7], "kwargs": {}}  ->  {"result": …}
    POST /v1/operations/operations.diffs.find_difference   the same, on the repository
    GET  /v1/changes?after=12&seconds=20  the last event's number, once it is not 12
    GET  /v1/verbs                        what there is, and the numbers the store works with

What only looks needs the scope `read`, everything else `admin`; neither is for one tenant alone,
since verbs know of no tenants. Who may ask is decided elsewhere, and told as `Calls.allow`.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cache
from http import HTTPStatus
from typing import Annotated, Any, Final, Literal

import anyio
from anyio.to_thread import run_sync
from fastapi import APIRouter, Query, Request, Response

from weft import __version__, errors
from weft.errors import Forbidden, NotFound, Refused, StoreError, WeftError
from weft.store import Store
from weft.store.calling import Unreadable, all_verbs, arguments_of, decode, encode
from weft.store.events import last_event
from weft.store.hosted import HOSTED, Place
from weft.store.remote import UNKNOWN
from weft.store.store import Verb

Scope = Literal["read", "admin"]
Allow = Callable[[Request, Scope], Awaitable[object]]
"""Raises unless the request's token has the scope, and is not for one tenant alone."""

_MOST: Final = 96 << 20  # bytes of a call: the largest plan, as base64
_LONGEST_WAIT: Final = 30.0  # seconds
_SECRET: Final = ("tokens.", "replies.")  # what only an admin may even look at
_MODULES: Final = (
    "weft.gate.verify",
    "weft.operations.agent_list",
    "weft.operations.agent_trial",
    "weft.operations.clean",
    "weft.operations.diffs",
    "weft.operations.do",
    "weft.operations.doctor",
    "weft.operations.logs",
    "weft.operations.running",
    "weft.operations.submission",
)


@dataclass(frozen=True, kw_only=True)
class Calls:
    """What calls are about; an app that includes the router has it as `state.calls`."""

    store: Store
    place: Place
    allow: Allow


router: Final = APIRouter(prefix="/v1", include_in_schema=False)


@cache
def operations() -> Mapping[str, Verb]:
    for module in _MODULES:
        importlib.import_module(module)
    return HOSTED


@router.get("/verbs")
async def list_verbs(request: Request) -> Response:
    calls: Calls = request.app.state.calls
    await calls.allow(request, "read")
    return _answer(
        {
            "weft": __version__,
            "tuning": calls.store.tuning,
            "verbs": sorted(all_verbs()),
            "operations": sorted(operations()),
        }
    )


@router.post("/verbs/{name}")
async def call_verb(request: Request, name: str) -> Response:
    calls: Calls = request.app.state.calls
    verb = all_verbs().get(name)
    await calls.allow(request, _scope(verb))
    if verb is None:
        return unknown(name)
    carry_out = calls.store.ask if verb.kind == "read" else calls.store.tell
    return await _carry_out(request, verb, carry_out)


@router.post("/operations/{name}")
async def call_operation(request: Request, name: str) -> Response:
    calls: Calls = request.app.state.calls
    operation = operations().get(name)
    await calls.allow(request, _scope(operation))
    if operation is None:
        return unknown(name)

    def carry_out(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return function(calls.place, *args, **kwargs)

    return await _carry_out(request, operation, carry_out)


@router.get("/changes")
async def wait_for_changes(
    request: Request, after: int, seconds: Annotated[float, Query(ge=0, le=_LONGEST_WAIT)]
) -> Response:
    calls: Calls = request.app.state.calls
    await calls.allow(request, "read")
    end = anyio.current_time() + seconds
    try:
        with calls.store.listen("events") as listener:
            while (last := await run_sync(last_event, calls.store)) == after:
                with anyio.move_on_after(end - anyio.current_time()) as over:
                    await anyio.wait_readable(listener)
                listener.drain()
                if over.cancelled_caught:
                    break
    except WeftError as error:
        return problem(error)
    return _answer(last)


def _scope(verb: Verb | None) -> Scope:
    """Whoever may not even look does not learn what there is."""
    if verb is None:
        return "read"
    return "read" if verb.kind == "read" and not verb.name.startswith(_SECRET) else "admin"


async def _carry_out(request: Request, verb: Verb, carry_out: Callable[..., Any]) -> Response:
    body = await _body(request)
    if body is None:
        return _problem(413, "input_error", f"A call has at most {_MOST >> 20} MB.")
    try:
        return await run_sync(_called, verb, carry_out, body)
    except WeftError as error:
        return problem(error)


def _called(verb: Verb, carry_out: Callable[..., Any], body: bytes) -> Response:
    try:
        called = decode(body)
    except Unreadable as error:
        raise errors.InputError(f"This call cannot be read: {error}.") from error
    args, kwargs = arguments_of(verb.function, called, now=time.time())
    return _answer(carry_out(verb.function, *args, **kwargs))


async def _body(request: Request) -> bytes | None:
    """All of it; None if it is too long."""
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > _MOST:
            return None
        parts.append(part)
    return b"".join(parts)


def _answer(result: object) -> Response:
    return Response(encode({"result": result}), media_type="application/json")


def unknown(name: str) -> Response:
    return _problem(404, UNKNOWN, f"There is nothing called {name[:100]!r} here.")


def problem(error: WeftError) -> Response:
    """An error as it travels: the nearest of its classes that both sides know, and its words."""
    known = next(one for one in type(error).__mro__ if one.__module__ == errors.__name__)
    return _problem(_status(error), errors.name_of(known), str(error))


def _problem(status: int, kind: str, detail: str) -> Response:
    about = {"type": kind, "title": HTTPStatus(status).phrase, "status": status, "detail": detail}
    return Response(encode(about), status, media_type="application/problem+json")


def _status(error: WeftError) -> int:
    match error:
        case NotFound():
            return 404
        case Forbidden():
            return 403
        case Refused():
            return 409
        case StoreError():
            return 503
    return 422
