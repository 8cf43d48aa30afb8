"""The views of a candidate in review and of a task's changes, and the acts of a review."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field

from weft import bounds, git
from weft.api import review_rights
from weft.api.http.bodies import TaskNumber
from weft.api.http.page.html_answers import show_slowly
from weft.api.http.requests import parts_of
from weft.gate.review_view import read_patch
from weft.operations import reading
from weft.operations.identity import ADMIN, Identity, has
from weft.page.markup import Html
from weft.page.review_page import DiffView, ReviewPage, render_review, render_task_diff
from weft.runs.task_diff import get_diff

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
        reading.get_task(parts.store, who, id)
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
