"""Runs of plans: submitted, looked at, paused or drained, cancelled."""

from __future__ import annotations

from collections import Counter
from typing import Annotated

from fastapi import APIRouter, Path, Request, Response

from weft.api.http import bodies, wire
from weft.api.http.openapi import answers
from weft.api.http.requests import act_slowly, in_slow_thread, look, parts_of
from weft.model import TaskKind
from weft.operations.dispatch import PlanSent, submit_text
from weft.operations.identity import ADMIN, READ, Identity
from weft.store import Store
from weft.store.runs import get_run, page_runs
from weft.store.tasks import list_run

router = APIRouter(tags=["runs"])

RunId = Annotated[str, Path(min_length=1, max_length=200, description="A run's id.")]


@router.post("/runs", status_code=201, openapi_extra=answers(PlanSent))
async def submit(request: Request, body: bodies.NewRunBody) -> Response:
    """Run a plan on the server's repository, by its workers."""
    parts, new = parts_of(request), body.new()

    async def work(who: Identity) -> PlanSent:
        return await in_slow_thread(
            request, lambda: submit_text(parts.store, who, parts.project, new)
        )

    return await act_slowly(request, ADMIN, work, status=201)


@router.get("/runs", openapi_extra=answers(wire.RunPage))
async def list_all(
    request: Request, after: bodies.After = None, most: bodies.Most = 50
) -> Response:
    """Runs, newest first; `after` of the answer is for the next page."""

    def work(store: Store, who: Identity, now: float) -> wire.RunPage:
        runs, more = page_runs(store, after=after, most=most)
        return {"runs": runs, "after": more}

    return await look(request, READ, work)


@router.get("/runs/{id}", openapi_extra=answers(wire.RunState))
async def get(request: Request, id: RunId) -> Response:
    """A run, and how many of its tasks are in each state."""

    def work(store: Store, who: Identity, now: float) -> wire.RunState:
        run = get_run(store, id)
        done = [task for task in list_run(store, id) if task.request.kind is TaskKind.WORK]
        return {"run": run, "tasks": dict(Counter(task.state.value for task in done))}

    return await look(request, READ, work)
