"""The application: routes, errors and the guard, put together around the parts they use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import anyio
from fastapi import APIRouter, FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.routing import Route
from starlette.types import ASGIApp

from weft import __version__
from weft.api.http import openapi, operation_routes, problem_details
from weft.api.http.auth import TokenCheck
from weft.api.http.event_stream import Stream
from weft.api.http.git_endpoint import GitEndpoint
from weft.api.http.guard import GIT, LOOPBACK, Bounds, Guard
from weft.api.http.member_expiry import forget
from weft.api.http.page import (
    needs_routes,
    resource_routes,
    run_page_routes,
    shell_routes,
    task_page_routes,
)
from weft.api.http.request_counts import VERSION, Counting, Counts
from weft.api.http.requests import Parts
from weft.api.http.routes import (
    event_routes,
    health_routes,
    task_routes,
    verb_routes,
)
from weft.api.threads import Threads
from weft.errors import WeftError
from weft.operations.long_poll import Room
from weft.project.project import Project
from weft.runs.log_pages import LogShelf
from weft.store import Store
from weft.store.store import open_reader

_THREADS: Final = 8  # requests that use the store at the same time
_SLOW_THREADS: Final = 4  # requests that start git or read files at the same time
_STREAM_THREADS: Final = 2  # for followers of events

_ROUTERS: Final = (
    verb_routes,  # first, since worker hosts call them most often
    operation_routes,
    task_routes,
    event_routes,
)
_PAGE: Final = (
    shell_routes,
    needs_routes,
    task_page_routes,
    run_page_routes,
    resource_routes,
)


def create_app(
    project: Project,
    store: Store,
    *,
    hosts: Iterable[str] = LOOPBACK,
    bounds: Bounds | None = None,
    mounted: Mapping[str, ASGIApp] | None = None,
) -> FastAPI:
    """Build the application over a store; `work_beside` must run while it is served.

    `hosts` are the names under which it may be reached; `mounted` are further applications by path.
    """
    quick = open_reader(store)
    parts = Parts(
        store=store,
        project=project,
        room=Room(store),
        stream=Stream(store, anyio.CapacityLimiter(_STREAM_THREADS)),
        counts=Counts(),
        threads=Threads(_THREADS, each=_THREADS // 2),
        slow_threads=Threads(_SLOW_THREADS, each=_SLOW_THREADS // 2),
        health_threads=anyio.CapacityLimiter(1),
        quick=quick,
        logs=LogShelf(),
        leaving=anyio.Event(),
    )
    app = FastAPI(
        title="weft",
        version=__version__,
        description=openapi.DESCRIPTION,
        openapi_url="/openapi.json",
        docs_url=None,  # its page would load programs from elsewhere
        redoc_url=None,
    )
    app.state.parts = parts
    v1 = APIRouter(prefix=VERSION)
    for module in _ROUTERS:
        v1.include_router(module.router)
    app.include_router(v1)
    for module in (health_routes, *_PAGE):
        app.include_router(module.router)
    app.router.routes.append(Route(f"{GIT}{{rest:path}}", GitEndpoint(project, store)))
    for path, mounted_app in (mounted or {}).items():
        app.router.routes.append(Route(path, mounted_app))
    _answer_errors(app)
    app.add_middleware(Counting, counts=parts.counts)
    tokens = TokenCheck(store, quick)
    app.add_middleware(Guard, hosts=hosts, bounds=bounds or Bounds(), tokens=tokens)
    openapi.complete_document(app)
    return app


def parts_of(app: FastAPI) -> Parts:
    parts: Parts = app.state.parts
    return parts


async def work_beside(app: FastAPI) -> None:
    """Run the background work of a server: the event stream, waiting polls, old answers. The server
    ends with it."""
    parts = parts_of(app)
    async with anyio.create_task_group() as group:
        group.start_soon(parts.stream.run)
        group.start_soon(_let_wait, parts)
        group.start_soon(forget, parts.store)


async def _let_wait(parts: Parts) -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(parts.room.run)
        await parts.leaving.wait()
        group.cancel_scope.cancel()


def close(app: FastAPI) -> None:
    """Close the reader, after the last request."""
    quick = parts_of(app).quick
    if quick is not None:
        quick.close()


def stop_waiting(app: FastAPI) -> None:
    """Answer all polls at once with no work, now and from now on."""
    parts_of(app).leaving.set()


def _answer_errors(app: FastAPI) -> None:
    answers: dict[type[Exception], Any] = {
        WeftError: problem_details.from_weft,
        HTTPException: problem_details.from_http,
        RequestValidationError: problem_details.from_validation,
        Exception: problem_details.from_defect,
    }
    for error, answer in answers.items():
        app.add_exception_handler(error, answer)
