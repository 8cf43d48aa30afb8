"""The routes of the operations, derived from the registry: `POST /v1/<name>` with the request."""

from __future__ import annotations

import time

import msgspec
from fastapi import APIRouter, Request, Response

from weft.api.http import problem_details, wire
from weft.api.http.auth import OWN
from weft.api.http.openapi import answers
from weft.api.http.problem_details import MALFORMED
from weft.api.http.requests import act, act_slowly, in_slow_thread, parts_of
from weft.operations.identity import Identity
from weft.operations.operation_list import OPERATIONS
from weft.operations.registry import Occasion, Operation
from weft.store import Store

router = APIRouter(tags=["operations"])


def _add_route(operation: Operation) -> None:
    async def endpoint(request: Request) -> Response:
        return await _answer(request, operation)

    body = {"content": {"application/json": {"schema": operation.schema()}}, "required": True}
    router.add_api_route(
        f"/{operation.name}",
        endpoint,
        methods=["POST"],
        name=operation.name,
        summary=operation.title,
        description=operation.description,
        openapi_extra={**answers(operation.gives), "requestBody": body},
    )


async def _answer(request: Request, operation: Operation) -> Response:
    try:
        asked = operation.parse(msgspec.json.decode(await request.body() or b"{}"))
    except msgspec.ValidationError as error:
        return problem_details.answer(422, problem_details.storable(f"{error}."), MALFORMED)
    except (msgspec.DecodeError, RecursionError):
        return problem_details.answer(400, "The body is not JSON.")
    parts = parts_of(request)
    if not operation.on_repository:

        def work(store: Store, who: Identity, now: float) -> object:
            setting = Occasion(project=parts.project, store=store, who=who, now=now)
            return wire.show(operation.carry_out(setting, asked))

        return await act(request, OWN, work)

    async def slowly(who: Identity) -> object:
        def perform() -> object:
            return operation.perform(parts.project, parts.store, who, asked, now=time.time())

        return wire.show(await in_slow_thread(request, perform))

    return await act_slowly(request, OWN, slowly)


for _operation in OPERATIONS.values():
    _add_route(_operation)
