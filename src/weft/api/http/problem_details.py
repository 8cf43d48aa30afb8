"""Errors as answers: the status of each, and their common shape, `application/problem+json` (RFC
9457).

`detail` is the sentence that the command line would print.
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
"""The type of a request that does not have the shape of the document."""

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
    """The cause of an error and the next step."""

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
    return answer(*describe(error))


def describe(error: WeftError) -> tuple[int, str, str]:
    """Return the status, the sentence and the name of an error."""
    status = status_of(error)
    # The details of a store's trouble are for its operator.
    sentence = "The store does not answer just now; ask again." if status == 503 else str(error)
    return status, storable(sentence), name_of(type(error))


def from_http(request: Request, error: Exception) -> Response:
    """Answer a request that the router refused: no such path, no such method."""
    assert isinstance(error, HTTPException)
    refused = answer(error.status_code, str(error.detail))
    refused.headers.update(error.headers or {})
    if error.status_code == 405:
        refused.headers["Allow"] = ", ".join(allowed_methods(request.app, request.url.path))
    return refused


def from_validation(_: Request, error: Exception) -> Response:
    """Answer a malformed body or parameter, without repeating it."""
    assert isinstance(error, RequestValidationError)
    problems = error.errors()
    if any(problem["type"] == "json_invalid" for problem in problems):
        return answer(400, "The body is not JSON.")
    shown = [
        f"{'.'.join(str(part) for part in problem['loc'])}: {problem['msg']}"
        for problem in problems[:5]
    ]
    return answer(422, storable("; ".join(shown)) + ".", MALFORMED)


def from_defect(_: Request, error: Exception) -> Response:
    """The server's log has the rest."""
    return answer(500, f"weft made a mistake here ({type(error).__name__}); its log says more.")


def storable(text: str) -> str:
    """Half a character has no place in JSON."""
    return text.encode(errors="replace").decode()
