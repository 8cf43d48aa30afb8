"""Tasks that are sent, listed and waited for. The other routes come from the operations."""

from __future__ import annotations

import time
from typing import Annotated, Final

from fastapi import APIRouter, Query, Request, Response

from weft import bounds
from weft.api import fields
from weft.api.fields import ClassName, TaskNumber
from weft.api.http import wire
from weft.api.http.openapi import answers
from weft.api.http.requests import (
    act,
    act_slowly,
    glance,
    in_thread,
    parts_of,
    while_connected,
)
from weft.model import Class, Filter, State, Task
from weft.operations import dispatch, membership, reading
from weft.operations.dispatch import address
from weft.operations.identity import OWN, READ, WORK, Identity
from weft.operations.member_operations import get_acting_member
from weft.operations.member_records import Dispatched, Page

router = APIRouter(tags=["tasks"])

_LINES: Final = 10_000  # lines of a log at once, at most

Named = Annotated[str | None, Query(max_length=200)]


@router.post("/tasks", status_code=201, openapi_extra=answers(Dispatched))
async def send(request: Request, body: fields.NewTaskBody) -> Response:
    """Send a task to the pool or to a member."""
    asked, parts = body.work(), parts_of(request)
    if body.wait_ms == 0:
        return await act(
            request,
            OWN,
            lambda store, who, now: dispatch.send(
                store, who, address(store, who, parts.project, asked), now=now
            ),
            status=201,
        )

    async def work(who: Identity) -> Dispatched:
        wait = body.wait_ms / 1000
        wanted = await in_thread(request, lambda: address(parts.store, who, parts.project, asked))
        return await while_connected(request, parts.room.send(who, wanted, wait=wait))

    return await act_slowly(request, OWN, work, status=201)


@router.get("/tasks", openapi_extra=answers(Page))
async def list_tasks(
    request: Request,
    state: State | None = None,
    agent: Named = None,
    worker: Named = None,
    run: Named = None,
    tenant: Named = None,
    created_by: Named = None,
    klass: Annotated[ClassName | None, Query(alias="class")] = None,
    after: Annotated[int, Query(ge=0, le=bounds.NUMBER)] = 0,
    most: fields.Most = 50,
) -> Response:
    """Tasks by number; `after` of the answer is for the next page."""
    which = Filter(
        state=state,
        agent=agent,
        worker=worker,
        run=run,
        tenant=tenant,
        created_by=created_by,
        klass=None if klass is None else Class[klass.upper()],
    )
    return await glance(
        request,
        READ,
        lambda store, who, now: wire.page(
            *reading.list_lines(store, who, which, after=after, most=most)
        ),
    )


@router.get("/tasks/{id}", openapi_extra=answers(Task))
async def get_task(request: Request, id: TaskNumber) -> Response:
    return await glance(
        request, OWN, lambda store, who, now: wire.show(reading.get_task(store, who, id))
    )


@router.post("/poll", openapi_extra=answers(wire.PollAnswer))
async def poll(request: Request, body: fields.Poll) -> Response:
    """Wait for work or news, for up to `wait_ms`."""
    parts, named = parts_of(request), request.headers.get("x-weft-agent")

    async def work(who: Identity) -> wire.PollAnswer:
        member = await in_thread(
            request, lambda: get_acting_member(parts.store, who, named, now=time.time())
        )
        wait = 0 if parts.leaving.is_set() else body.wait_ms / 1000
        trigger = await while_connected(
            request,
            parts.room.poll(who, member, wait=wait, ack=body.ack, holding=body.holding),
        )
        after = await in_thread(
            request, lambda: membership.get_member(parts.store, who, member, now=time.time())
        )
        return {"trigger": trigger, "capacity": after.capacity}

    return await act_slowly(request, WORK, work)
