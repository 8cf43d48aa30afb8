"""Health, readiness and metrics of this process."""

from __future__ import annotations

import time
from typing import Final

import anyio
from anyio.to_thread import run_sync
from fastapi import APIRouter, Request, Response

from weft.api.http import metrics, wire
from weft.api.http.auth import admit, bearer
from weft.api.http.openapi import answers
from weft.api.http.requests import encode, in_thread, parts_of
from weft.errors import StoreError
from weft.operations.identity import READ
from weft.store.database import Transaction
from weft.store.limit_table import identity
from weft.store.store import BoundStore

router = APIRouter(tags=["health"])

_SOON: Final = 2.0  # seconds in which a store answers that can be used


@router.get("/healthz", openapi_extra=answers(wire.Health))
async def healthz() -> Response:
    """This process is alive. Needs neither the store nor a token."""
    return Response(encode({"status": "ok"}), media_type="application/json")


@router.get("/readyz", openapi_extra=answers(wire.Health))
async def readyz(request: Request) -> Response:
    """The store answers with the schema of this weft; opening a store upgrades it."""
    parts = parts_of(request)
    with anyio.move_on_after(_SOON):
        await run_sync(identity, parts.store, abandon_on_cancel=True, limiter=parts.health_threads)
        return Response(encode({"status": "ok"}), media_type="application/json")
    raise StoreError


@router.get("/metrics", response_class=Response)
async def scrape(request: Request) -> Response:
    """For Prometheus."""
    parts, text = parts_of(request), bearer(request)

    def ask(tx: Transaction) -> metrics.MetricsSample:
        now = time.time()
        admit(tx, text, READ, now=now)
        return metrics.look(BoundStore(parts.store, tx), now)

    seen = await in_thread(request, lambda: parts.store.read(ask))
    text = metrics.render(
        seen, parts.counts, followers=parts.stream.followers, dropped=parts.stream.dropped
    )
    return Response(text, media_type=metrics.MEDIA_TYPE)
