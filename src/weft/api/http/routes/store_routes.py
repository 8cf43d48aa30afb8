"""What is asked about everything at once, and what is set for everybody: limits, queue, cost."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response

from weft.api.http import bodies, wire
from weft.api.http.openapi import answers
from weft.api.http.requests import act, look
from weft.runs import control, queue_view, run_costs
from weft.runs.control import ControlResult
from weft.store import Store
from weft.store.limit_table import set_limit
from weft.swarm.access import get_visible_run
from weft.swarm.identity import ADMIN, READ, Identity
from weft.swarm.views import list_limits

router = APIRouter(tags=["looking"])


@router.get("/limits", openapi_extra=answers(wire.LimitList))
async def limits(request: Request) -> Response:
    """Every limit, how much of it is used, and who sets it.

    All at once: there are as many as there are runs, workers and agent files at work. A tenant is
    told those that everybody shares, and its own.
    """

    def work(store: Store, who: Identity, now: float) -> wire.LimitList:
        return {"limits": list_limits(store, who, now=now)}

    return await look(request, READ, work)


@router.put("/limits/{resource:path}", openapi_extra=answers(wire.SetLimit))
async def change_limit(
    request: Request,
    resource: Annotated[str, Path(min_length=1, max_length=200)],
    body: bodies.NewLimit,
) -> Response:
    """Set a limit for every process. Lowering one stops nothing that runs; 0 pauses."""

    def work(store: Store, who: Identity, now: float) -> wire.SetLimit:
        before = set_limit(store, resource, body.capacity, now=now)
        return {"resource": resource, "capacity": body.capacity, "before": before}

    return await act(request, ADMIN, work)


@router.get("/queue", openapi_extra=answers(wire.Queue))
async def queue(request: Request, most: bodies.Most = 100) -> Response:
    """What starts next, what holds it up, and what lands: the first of each, without pages, since
    the order is another one at every moment. A tenant is told of its own."""

    def work(store: Store, who: Identity, now: float) -> wire.Queue:
        found = queue_view.read_queue(store, now=now, most=most, tenant=who.tenant)
        return wire.queue(found, most)

    return await look(request, READ, work)


@router.get("/cost", openapi_extra=answers(wire.CostPage))
async def cost(
    request: Request,
    run: Annotated[str | None, Query(max_length=200)] = None,
    after: bodies.After = None,
    most: bodies.Most = 50,
) -> Response:
    """What runs, their tasks and agents have cost, in tokens and millionths of a dollar.

    One run, or runs newest first, as many as asked for; `after` of the answer asks on, and what
    belongs to no run comes with the last of them. Of each, the tasks that took the most are told.
    """

    def work(store: Store, who: Identity, now: float) -> object:
        if run is not None:
            get_visible_run(store, who, run)
            costs = (run_costs.get_run_cost(store, run),)
            return wire.show(wire.CostPage(runs=costs, after=None))
        found, more = run_costs.page_run_costs(store, tenant=who.tenant, after=after, most=most)
        return wire.show(wire.CostPage(runs=tuple(found), after=more))

    return await look(request, READ, work)


@router.post("/drain", openapi_extra=answers(ControlResult))
async def drain(request: Request, body: bodies.Drain) -> Response:
    """Start nothing more, on any host; or go on."""
    verb = control.admit_again if body.undo else control.stop_admissions
    return await act(request, ADMIN, lambda store, who, now: verb(store, now=now))
