"""The event stream, as server-sent events."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Annotated, Final

from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import StreamingResponse

from weft import bounds
from weft.api.http.event_stream import EventFilter
from weft.api.http.requests import identify, in_thread, parts_of
from weft.errors import WeftError
from weft.operations import reading
from weft.operations.identity import OWN, READ, Identity, is_bound, need
from weft.store import Store
from weft.store.event_log import last_event
from weft.store.runs import get_run

router = APIRouter(tags=["events"])

_ASKED_AGAIN: Final = 60.0  # seconds after which a token must still be good


class EventStream(StreamingResponse):
    media_type = "text/event-stream"


@router.get(
    "/events",
    response_class=EventStream,
    responses={200: {"description": "Events, one JSON object each; the id resumes."}},
)
async def follow(
    request: Request,
    run: Annotated[str | None, Query(max_length=200)] = None,
    task: Annotated[int | None, Query(ge=1, le=bounds.NUMBER)] = None,
    last_event_id: Annotated[int | None, Header(ge=0, le=bounds.NUMBER)] = None,
) -> EventStream:
    """Events from now on, or since the event `Last-Event-ID`. Never ends by itself.

    A client that does not keep up is dropped, and may come back with the last id it saw.
    """
    parts = parts_of(request)
    before = parts.stream.revocations
    who = await identify(request, OWN)
    wanted = await in_thread(request, lambda: _wanted(parts.store, who, run, task))
    after = last_event_id
    if after is None:
        after = await in_thread(request, lambda: last_event(parts.store))
    blocks = parts.stream.follow(wanted, after)
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return EventStream(_while_allowed(request, blocks, before), headers=headers)


def _wanted(store: Store, who: Identity, run: str | None, task: int | None) -> EventFilter:
    """Return the filter of a follower; raise if it may not see the run or task."""
    if is_bound(who):
        task = who.task if task is None else task
    else:
        need(who, READ)
    if task is not None:
        reading.get_task(store, who, task)
    if run is not None:
        get_run(store, run)
    return EventFilter(run=run, task=task)


async def _while_allowed(
    request: Request, blocks: AsyncGenerator[bytes, None], revocations: int
) -> AsyncIterator[bytes]:
    """Pass blocks on while the token is valid. The token is checked before the first block after
    any revocation, and from time to time, since it may expire."""
    stream, asked = parts_of(request).stream, time.monotonic()
    async with aclosing(blocks):
        async for block in blocks:
            if stream.revocations != revocations or time.monotonic() - asked > _ASKED_AGAIN:
                revocations, asked = stream.revocations, time.monotonic()
                try:
                    await identify(request, OWN)
                except WeftError:
                    return
            yield block
