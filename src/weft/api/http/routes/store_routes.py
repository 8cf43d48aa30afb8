"""Questions and settings over all runs: limits, queue, cost, drain."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from weft.api.http import bodies, wire
from weft.api.http.openapi import answers
from weft.api.http.requests import look
from weft.operations.identity import READ, Identity
from weft.runs import explanation, task_list
from weft.store import Store
from weft.store.limit_table import list_limits
from weft.store.runs import get_run

router = APIRouter(tags=["looking"])


@router.get("/limits", openapi_extra=answers(wire.LimitList))
async def limits(request: Request) -> Response:
    """Every limit, its use and its owner. Not in pages: there are as many as runs, workers and
    agent files at work."""

    def work(store: Store, who: Identity, now: float) -> wire.LimitList:
        return {"limits": list_limits(store, now=now)}

    return await look(request, READ, work)


@router.get("/queue", openapi_extra=answers(wire.Queue))
async def queue(request: Request, most: bodies.Most = 100) -> Response:
    """The next tasks with their waits, and the next entries: the first of each, without pages,
    since the order changes all the time."""

    def work(store: Store, who: Identity, now: float) -> wire.Queue:
        view = explanation.read_queue(store, now=now, most=most)
        return wire.queue(view, most)

    return await look(request, READ, work)


@router.get("/cost", openapi_extra=answers(wire.CostPage))
async def cost(
    request: Request,
    run: Annotated[str | None, Query(max_length=200)] = None,
    after: bodies.After = None,
    most: bodies.Most = 50,
) -> Response:
    """Tokens and micro-dollars of runs, their tasks and agents.

    A single run, or runs newest first; `after` of the answer is for the next page. Tasks without a
    run come with the last page. Of each run, the tasks with the highest cost are listed.
    """

    def work(store: Store, who: Identity, now: float) -> object:
        if run is not None:
            get_run(store, run)
            cost = task_list.get_run_cost(store, run)
            return wire.show(wire.CostPage(runs=(cost,), after=None))
        costs, more = task_list.page_run_costs(store, after=after, most=most)
        return wire.show(wire.CostPage(runs=tuple(costs), after=more))

    return await look(request, READ, work)
