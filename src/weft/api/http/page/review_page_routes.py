"""The views of a candidate in review and of a task's changes, and the acts of a review."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field

from weft import bounds, git
from weft.api import review_rights
from weft.api.fields import CommentFields
from weft.api.http.bodies import Body, TaskNumber
from weft.api.http.page.html_answers import show_slowly
from weft.api.http.requests import act, act_slowly, in_slow_thread, parts_of
from weft.gate.review_diff import read_patch
from weft.page.markup import Html
from weft.page.review_page import DiffView, ReviewPage, render_review, render_task_diff
from weft.runs.control import ControlResult
from weft.runs.task_diff import get_diff
from weft.store import Store
from weft.swarm import views
from weft.swarm.identity import ADMIN, Identity, has

router = APIRouter(prefix="/page", include_in_schema=False)

Candidate = Annotated[str, Field(min_length=1, max_length=100)]
FilePath = Annotated[str | None, Query(max_length=4096)]
Number = Annotated[int, Query(ge=0, le=bounds.NUMBER)]


@router.get("/review/{id}")
async def review(
    request: Request,
    id: TaskNumber,
    path: FilePath = None,
    side: Literal["old", "new"] = "new",
    line: Number = 0,
    start: Number = 0,
    since: bool = False,
    unfold: FilePath = None,
) -> Response:
    parts = parts_of(request)

    def view(who: Identity, now: float) -> Html:
        return render_review(
            ReviewPage(
                review=review_rights.read_visible(parts.store, who, parts.project, id),
                place=None if path is None else (path, side, line),
                since_last=since,
                start=start,
                unfolded=unfold or "",
                may_act=has(who, ADMIN),
            )
        )

    return await show_slowly(request, view)


@router.get("/diff/{id}")
async def diff(
    request: Request, id: TaskNumber, start: Number = 0, unfold: FilePath = None
) -> Response:
    parts = parts_of(request)

    def view(who: Identity, now: float) -> Html:
        views.get_task(parts.store, who, id)
        changes = get_diff(parts.project, str(id))
        compared = git.compare_trees(parts.project.root, changes.base, changes.commit)
        return render_task_diff(
            DiffView(
                task=id,
                name=changes.name,
                attempt=changes.attempt,
                commit=changes.commit,
                files=read_patch(changes.patch, compared),
                start=start,
                unfolded=unfold or "",
            )
        )

    return await show_slowly(request, view)


class CandidateAct(Body):
    candidate: Candidate


class RemoveCommentAct(CandidateAct):
    comment: Annotated[int, Field(ge=1, le=bounds.NUMBER)]


class CommentAct(CommentFields):
    candidate: Candidate
    # The value of an input is a text.
    last: Annotated[int, Field(ge=0, le=bounds.NUMBER, strict=False)] = 0


@router.post("/act/comment")
async def comment(request: Request, body: CommentAct) -> Response:
    parts = parts_of(request)

    async def work(who: Identity) -> ControlResult:
        def write() -> None:
            review_rights.comment(parts.store, who, parts.project, body.candidate, body.draft())

        await in_slow_thread(request, write)
        return ControlResult(text="The comment is kept; send the round when it is complete.")

    return await act_slowly(request, ADMIN, work)


@router.post("/act/remove-comment")
async def remove(request: Request, body: RemoveCommentAct) -> Response:
    def work(store: Store, who: Identity, now: float) -> ControlResult:
        review_rights.remove(store, who, body.candidate, body.comment)
        return ControlResult(text="The comment is removed.")

    return await act(request, ADMIN, work)


@router.post("/act/send-round")
async def send(request: Request, body: CandidateAct) -> Response:
    def work(store: Store, who: Identity, now: float) -> ControlResult:
        sent = review_rights.send_round(store, who, body.candidate)
        return ControlResult(text=f"Round {sent.round} goes to the agent.")

    return await act(request, ADMIN, work)


@router.post("/act/accept")
async def accept(request: Request, body: CandidateAct) -> Response:
    def work(store: Store, who: Identity, now: float) -> ControlResult:
        review_rights.accept(store, who, body.candidate)
        return ControlResult(text=f"Candidate {body.candidate} is accepted and goes to the gate.")

    return await act(request, ADMIN, work)
