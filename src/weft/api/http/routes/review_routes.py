"""Reviews: candidates that wait for a person, comments on them, and decisions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request, Response

from weft.api import review_rights
from weft.api.http import wire
from weft.api.http.auth import OWN
from weft.api.http.bodies import TaskNumber
from weft.api.http.openapi import answers
from weft.api.http.requests import act_slowly, in_slow_thread, parts_of
from weft.gate.review_view import ReviewView
from weft.operations.identity import READ, Identity

router = APIRouter(tags=["reviews"])

CandidateId = Annotated[str, Path(min_length=1, max_length=100, description="A candidate's id.")]


@router.get("/reviews", openapi_extra=answers(wire.ReviewList))
async def list_all(request: Request) -> Response:
    """Candidates in review, the longest waiting first."""
    parts = parts_of(request)

    def read(who: Identity) -> wire.ReviewList:
        return {"reviews": list(review_rights.list_visible(parts.store, who, parts.project))}

    return await _slowly(request, READ, read)


@router.get("/tasks/{id}/review", openapi_extra=answers(ReviewView))
async def get(request: Request, id: TaskNumber) -> Response:
    """The candidate of a task in review: its changes as hunks, those since the last round, the
    comments of that round with their answers, and drafts."""
    parts = parts_of(request)

    def read(who: Identity) -> object:
        return wire.show(review_rights.read_visible(parts.store, who, parts.project, id))

    return await _slowly(request, OWN, read)


async def _slowly(
    request: Request, scope: str, call: Callable[[Identity], Any], *, status: int = 200
) -> Response:
    """Answer from git, outside a transaction of the store."""

    async def work(who: Identity) -> object:
        return await in_slow_thread(request, lambda: call(who))

    return await act_slowly(request, scope, work, status=status)
