"""The store's verbs and the repository's operations, called by name, for `weft --server`.

    POST /v1/verbs/tasks.get_task         {"args": [7], "kwargs": {}}  ->  {"result": …}
    POST /v1/verbs                        {"calls": [["tasks.get_task", {…}], …]}: verbs that read
    POST /v1/operations/runs.task_diff.find_difference   the same, on the repository
    GET  /v1/changes?after=12&seconds=20  the last event's number, once it is not 12
    GET  /v1/verbs                        the verbs, the operations, and the tuning of the store

A verb that only reads needs the scope `read`, any other verb `admin`; a worker host calls the verbs
of its own work (`host_rights`). Verbs skip the bounds of the other routes, and change with versions
of weft: the OpenAPI document leaves them out.
"""

from __future__ import annotations

import importlib
import inspect
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import aclosing, contextmanager
from functools import cache, partial
from typing import Annotated, Any, Final

import anyio
from fastapi import APIRouter, Query, Request, Response

from weft import __version__, errors
from weft.api.http import problem_details
from weft.api.http.event_stream import EventFilter
from weft.api.http.requests import (
    ShownOnce,
    act,
    act_slowly,
    encode,
    identify,
    in_slow_thread,
    in_thread,
    look,
    parts_of,
)
from weft.errors import InputError, WeftError
from weft.operations.host_outcome import derive_outcome
from weft.operations.host_rights import require_more_files, require_right, require_tool_rights
from weft.operations.identity import ADMIN, READ, Identity, need
from weft.project.own_repository import get_repository
from weft.project.project import Project
from weft.store import Store
from weft.store.event_log import last_event
from weft.store.remote_calls import Unreadable, all_verbs, arguments_of, decode
from weft.store.remote_store import UNKNOWN
from weft.store.server_operations import HOSTED
from weft.store.store import Verb

router = APIRouter(include_in_schema=False)

_LONGEST_WAIT: Final = 30.0  # seconds
_MOST_CALLS: Final = 32  # that a request makes
_SECRET: Final = (
    "tokens.",
    "replies.",
    "page_codes.",
)  # verbs for admins only, whose answers are not stored
MODULES: Final = (
    "weft.gate.run_landing",
    "weft.gate.proof",
    "weft.gate.review_view",
    "weft.project.agent_list",
    "weft.project.home_settings",
    "weft.maintenance.agent_trial",
    "weft.maintenance.cleanup",
    "weft.operations.agent_loop",
    "weft.operations.run_changes",
    "weft.runs.task_diff",
    "weft.operations.single_task",
    "weft.operations.planner",
    "weft.maintenance.examination",
    "weft.runs.attempt_output",
    "weft.runs.run_settings",
    "weft.operations.submission",
    "weft.operations.inbox",
)
"""The modules with operations on the repository; an operation of any other module is unknown."""


@cache
def operations() -> Mapping[str, Verb]:
    for module in MODULES:
        importlib.import_module(module)
    return HOSTED


@router.get("/verbs")
async def list_verbs(request: Request) -> Response:
    def work(store: Store, who: Identity, now: float) -> object:
        facts = {"weft": __version__, "tuning": store.tuning}
        return {"result": {**facts, "verbs": sorted(all_verbs()), "operations": sorted(HOSTED)}}

    return await look(request, READ, work)


@router.post("/verbs")
async def call_verbs(request: Request) -> Response:
    """Call verbs that only read, in one transaction."""
    body = await request.body()

    def ask(store: Store, who: Identity, now: float) -> object:
        results = [
            _carry_out(verb, partial(store.call, verb), call, who, now)
            for verb, call in _read_calls(body)
        ]
        return {"result": results}

    return await look(request, READ, ask)


@router.post("/verbs/{name}")
async def call_verb(request: Request, name: str) -> Response:
    verb = all_verbs().get(name)
    if verb is None:
        return await _unknown(request, name)
    body, project = await request.body(), parts_of(request).project

    def ask(store: Store, who: Identity, now: float) -> object:
        return {"result": _carry_out(verb, partial(store.call, verb), _read(body), who, now)}

    def tell(store: Store, who: Identity, now: float) -> object:
        if who.worker is not None:
            done = {"result": _serve_host(store, who, verb, body, project, now)}
        else:
            need(who, ADMIN)
            done = {"result": _carry_out(verb, partial(store.call, verb), _read(body), who, now)}
        return ShownOnce(shown=done, kept={}) if _is_secret(verb) else done

    if verb.kind == "write":
        return await act(request, READ, tell)
    return await look(request, ADMIN if _is_secret(verb) else READ, ask)


@router.post("/operations/{name}")
async def call_operation(request: Request, name: str) -> Response:
    operation = operations().get(name)
    if operation is None:
        return await _unknown(request, name)
    body = await request.body()
    project = parts_of(request).project

    def carry_out(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return operation.function(project, *args, **kwargs)

    async def work(who: Identity) -> object:
        done = await in_slow_thread(
            request, lambda: _carry_out(operation, carry_out, _read(body), who, time.time())
        )
        return {"result": done}

    if operation.kind == "write":
        return await act_slowly(request, ADMIN, work)
    done = await work(await identify(request, READ))
    return Response(encode(done), media_type="application/json")


@router.get("/changes")
async def wait_for_changes(
    request: Request, after: int, seconds: Annotated[float, Query(ge=0, le=_LONGEST_WAIT)]
) -> Response:
    parts = parts_of(request)
    await identify(request, READ)
    last = await in_thread(request, lambda: last_event(parts.store))
    if last == after:
        with anyio.move_on_after(seconds):
            async with aclosing(parts.stream.follow(EventFilter(), after)) as blocks:
                async for block in blocks:
                    if not block.startswith(b":"):  # more than a sign of life
                        break
        last = await in_thread(request, lambda: last_event(parts.store))
    return Response(encode({"result": last}), media_type="application/json")


def _serve_host(
    store: Store, who: Identity, verb: Verb, body: bytes, project: Project, now: float
) -> Any:
    """Carry out a verb that writes for a worker host, if it is about the host's own work."""

    def carry_out(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        bound = inspect.signature(verb.function).bind(None, *args, **kwargs)
        bound.apply_defaults()
        given = bound.arguments
        require_right(store, who, verb.name, given, get_repository(project.root, store))
        match verb.name:
            case "attempt_end.finish":
                fence, reported = given["fence"], given["outcome"]
                given["outcome"] = derive_outcome(store, project, fence, reported, now=now)
            case "leases.extend":
                require_more_files(store, given["fence"], given["files"])
            case "tokens.create_token":
                require_tool_rights(store, project, given)
        return store.call(verb, bound.args[1:], bound.kwargs)

    return _carry_out(verb, carry_out, _read(body), who, now)


def _read(body: bytes) -> Any:
    try:
        return decode(body)
    except Unreadable as error:
        raise InputError(f"This call cannot be read: {error}.") from error


def _read_calls(body: bytes) -> list[tuple[Verb, object]]:
    """Return the verbs that are called at once; each must be open to every reader."""
    match _read(body):
        case {"calls": list(calls), **rest} if not rest and len(calls) <= _MOST_CALLS:
            pass
        case _:
            raise InputError(f'Calls are {{"calls": […]}}, at most {_MOST_CALLS} of them.')
    return [_read_call(call) for call in calls]


def _read_call(call: object) -> tuple[Verb, object]:
    match call:
        case [str(name), arguments]:
            verb = all_verbs().get(name)
            if verb is not None and verb.kind == "read" and not _is_secret(verb):
                return verb, arguments
            raise InputError(f"{name[:100]!r} is no verb that only reads.")
        case _:
            raise InputError('Each of the calls is ["verb", {"args": […], "kwargs": {…}}].')


def _carry_out(
    verb: Verb, carry_out: Callable[..., Any], called: object, who: Identity, now: float
) -> Any:
    args, kwargs = arguments_of(verb.function, called, {"now": now, "who": who})
    with _known_errors():
        return carry_out(args, kwargs)


@contextmanager
def _known_errors() -> Iterator[None]:
    """Translate errors into the nearest class of `weft.errors`, which both sides know."""
    try:
        yield
    except WeftError as error:
        known = next(kind for kind in type(error).__mro__ if kind.__module__ == errors.__name__)
        if known is type(error):
            raise
        raise known(str(error)) from error


def _is_secret(verb: Verb) -> bool:
    return verb.name.startswith(_SECRET)


async def _unknown(request: Request, name: str) -> Response:
    """Answer that there is no such verb, to a token that may call verbs."""
    await identify(request, READ)
    return problem_details.answer(
        404, f"There is no verb or operation {name[:100]!r} here.", UNKNOWN
    )
