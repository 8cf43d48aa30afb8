"""Errors as answers: which status each has, and the one shape they all come in.

The shape is `application/problem+json` (RFC 9457). `detail` is the sentence that a person at the
command line would have read.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

import msgspec
from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from typing_extensions import TypedDict

from weft.api.http.openapi import allowed_methods
from weft.errors import (
    AlreadyEnded,
    AtCapacity,
    Forbidden,
    InputError,
    LimitsDiffer,
    NotFound,
    QueueFull,
    Refused,
    StaleFence,
    StillAnswering,
    StoreError,
    Unauthenticated,
    WeftError,
    name_of,
)

log = logging.getLogger(__name__)

MEDIA_TYPE: Final = "application/problem+json"
MALFORMED: Final = "malformed"
"""The type of what does not even have the shape that the document asks for."""

_STATUSES: Final[Mapping[type[WeftError], int]] = {
    Unauthenticated: 401,
    Forbidden: 403,
    NotFound: 404,
    StaleFence: 409,
    AlreadyEnded: 409,
    AtCapacity: 409,
    StillAnswering: 409,
    QueueFull: 429,
    Refused: 409,
    InputError: 422,
    LimitsDiffer: 409,
    StoreError: 503,
    WeftError: 500,
}
AGAIN: Final[Mapping[int, int]] = {429: 5, 503: 2}  # seconds after which to ask again


class ProblemDetails(TypedDict):
    """What went wrong, why, and what to do next."""

    type: str  # the name of the error, stable: `stale_fence`
    title: str
    status: int
    detail: str


class Rejected(HTTPException):
    """A request that is not even looked at; not an error of weft's."""


def status_of(error: WeftError) -> int:
    return next(_STATUSES[kind] for kind in type(error).__mro__ if kind in _STATUSES)


def encode(status: int, detail: str, name: str | None = None) -> bytes:
    title = HTTPStatus(status).phrase
    problem: ProblemDetails = {
        "type": name or title.lower().replace(" ", "_").replace("-", "_"),
        "title": title,
        "status": status,
        "detail": detail,
    }
    return msgspec.json.encode(problem)


def answer(status: int, detail: str, name: str | None = None) -> Response:
    headers = {}
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if status in AGAIN:
        headers["Retry-After"] = str(AGAIN[status])
    return Response(encode(status, detail, name), status, headers, MEDIA_TYPE)


def from_weft(_: Request, error: Exception) -> Response:
    assert isinstance(error, WeftError)
    if status_of(error) >= 500:
        log.warning("a request could not be answered: %s", error)
    return answer(*told(error))


def told(error: WeftError) -> tuple[int, str, str]:
    """The status of an error, what is said of it, and its name."""
    status = status_of(error)
    # What the store says of its own troubles is for whoever runs it.
    said = "The store does not answer just now; ask again." if status == 503 else str(error)
    return status, storable(said), name_of(type(error))


def from_http(request: Request, error: Exception) -> Response:
    """What the router itself refuses: no such path, no such method."""
    assert isinstance(error, HTTPException)
    refused = answer(error.status_code, str(error.detail))
    refused.headers.update(error.headers or {})
    if error.status_code == 405:
        refused.headers["Allow"] = ", ".join(allowed_methods(request.app, request.url.path))
    return refused


def from_validation(_: Request, error: Exception) -> Response:
    """A body or parameter that is not what it must be; what was sent is not repeated."""
    assert isinstance(error, RequestValidationError)
    found = error.errors()
    if any(one["type"] == "json_invalid" for one in found):
        return answer(400, "The body is not JSON.")
    told = [f"{'.'.join(str(part) for part in one['loc'])}: {one['msg']}" for one in found[:5]]
    return answer(422, storable("; ".join(told)) + ".", MALFORMED)


def from_defect(_: Request, error: Exception) -> Response:
    """The server's log has the rest."""
    return answer(500, f"weft made a mistake here ({type(error).__name__}); its log says more.")


def storable(text: str) -> str:
    """Half a character has no place in JSON."""
    return text.encode(errors="replace").decode()
