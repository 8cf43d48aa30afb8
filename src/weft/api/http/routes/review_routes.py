"""Reviews: candidates that wait for a person, comments on them, and decisions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request, Response

from weft.api import review_rights
from weft.api.http import bodies, wire
from weft.api.http.auth import OWN
from weft.api.http.bodies import TaskNumber
from weft.api.http.openapi import answers
from weft.api.http.requests import act, act_slowly, in_slow_thread, parts_of
from weft.candidate_records import Review, ReviewComment
from weft.gate.review_view import ReviewView
from weft.store import Store
from weft.swarm.identity import ADMIN, READ, Identity

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


@router.post("/reviews/{candidate}/comments", status_code=201, openapi_extra=answers(ReviewComment))
async def comment(request: Request, candidate: CandidateId, body: bodies.NewComment) -> Response:
    """Add a draft of a comment. The agent gets it when the round is sent."""
    parts = parts_of(request)

    def write(who: Identity) -> object:
        return review_rights.comment(parts.store, who, parts.project, candidate, body.draft())

    return await _slowly(request, ADMIN, write, status=201)


@router.delete("/reviews/{candidate}/comments/{id}", openapi_extra=answers(wire.RemovedComment))
async def remove(request: Request, candidate: CandidateId, id: TaskNumber) -> Response:
    """Delete a draft."""

    def work(store: Store, who: Identity, now: float) -> wire.RemovedComment:
        review_rights.remove(store, who, candidate, id)
        return {"comment": id}

    return await act(request, ADMIN, work)


@router.post("/reviews/{candidate}/send", openapi_extra=answers(Review))
async def send(request: Request, candidate: CandidateId) -> Response:
    """Send the drafts to the agent as one round; refused for a candidate that is not shown."""
    return await _decide(request, candidate, review_rights.send_round)


@router.post("/reviews/{candidate}/accept", openapi_extra=answers(Review))
async def accept(request: Request, candidate: CandidateId) -> Response:
    """Let a candidate land; refused for a candidate that is not shown."""
    return await _decide(request, candidate, review_rights.accept)


async def _decide(
    request: Request, candidate: str, decide: Callable[[Store, Identity, str], Review]
) -> Response:
    def work(store: Store, who: Identity, now: float) -> Review:
        return decide(store, who, candidate)

    return await act(request, ADMIN, work)


async def _slowly(
    request: Request, scope: str, call: Callable[[Identity], Any], *, status: int = 200
) -> Response:
    """Answer from git, outside a transaction of the store."""

    async def work(who: Identity) -> object:
        return await in_slow_thread(request, lambda: call(who))

    return await act_slowly(request, scope, work, status=status)
