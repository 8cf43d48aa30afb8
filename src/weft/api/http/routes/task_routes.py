"""Tasks: send, list, claim, work, end, explain."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request, Response

from weft import bounds
from weft.api.fields import ClassName
from weft.api.http import bodies, wire
from weft.api.http.auth import OWN
from weft.api.http.bodies import TaskNumber
from weft.api.http.openapi import answers
from weft.api.http.requests import (
    act,
    act_slowly,
    glance,
    in_slow_thread,
    in_thread,
    look,
    parts_of,
    while_connected,
)
from weft.api.http.routes.member_routes import acting
from weft.errors import AlreadyEnded, Refused
from weft.model import Class, Filter, State, Task
from weft.operations import dispatch, inbox, member_work, reading
from weft.operations.dispatch import address
from weft.operations.identity import READ, WORK, Identity
from weft.operations.member_records import Claimed, Dispatched, Heard, Page
from weft.operations.reading import explain
from weft.runs.attempt_output import TaskLog
from weft.runs.task_diff import TaskDiff, get_diff
from weft.store import Store

router = APIRouter(tags=["tasks"])

_LINES: Final = 10_000  # lines of a log at once, at most

Named = Annotated[str | None, Query(max_length=200)]


@router.post("/tasks", status_code=201, openapi_extra=answers(Dispatched))
async def send(request: Request, body: bodies.NewTaskBody) -> Response:
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
    most: bodies.Most = 50,
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


@router.post("/tasks/{id}/claim", openapi_extra=answers(Claimed))
async def claim(request: Request, id: TaskNumber) -> Response:
    """Claim a task from the pool; the member must have room for it."""
    return await _take(request, id, member_work.claim)


@router.post("/tasks/{id}/accept", openapi_extra=answers(Claimed))
async def accept(request: Request, id: TaskNumber) -> Response:
    """Accept an offered task."""
    return await _take(request, id, member_work.accept)


async def _take(request: Request, id: int, verb: Callable[..., Claimed | Refused]) -> Response:
    named = request.headers.get("x-weft-agent")

    def work(store: Store, who: Identity, now: float) -> Claimed | Refused:
        return verb(store, who, acting(store, who, named, now=now), id, now=now)

    return await act(request, WORK, work)


@router.post("/tasks/{id}/reject", openapi_extra=answers(wire.TaskChange))
async def reject(request: Request, id: TaskNumber, body: bodies.ReasonBody) -> Response:
    """Reject an offered task."""
    named = request.headers.get("x-weft-agent")

    def work(store: Store, who: Identity, now: float) -> wire.TaskChange:
        member = acting(store, who, named, now=now)
        member_work.reject(store, who, member, id, reason=body.reason, now=now)
        return {"task": id, "changed": True}

    return await act(request, WORK, work)


@router.post("/tasks/{id}/release", openapi_extra=answers(wire.TaskChange))
async def release(request: Request, id: TaskNumber, body: bodies.Release) -> Response:
    """Hand a task back to the pool."""

    def work(store: Store, who: Identity, now: float) -> wire.TaskChange:
        changed = member_work.release(store, who, body.fence, task=id, reason=body.reason, now=now)
        return {"task": id, "changed": changed}

    return await act(request, OWN, work)


@router.post("/tasks/{id}/progress", openapi_extra=answers(Heard))
async def progress(request: Request, id: TaskNumber, body: bodies.ProgressBody) -> Response:
    """Report progress, which is also a sign of life; the answer brings messages."""

    def work(store: Store, who: Identity, now: float) -> Heard:
        return member_work.progress(
            store,
            who,
            body.fence,
            task=id,
            text=body.text,
            data=body.data,
            ack=body.ack,
            now=now,
        )

    return await act(request, OWN, work)


@router.post("/tasks/{id}/finish", openapi_extra=answers(wire.TaskState))
async def finish(request: Request, id: TaskNumber, body: bodies.Finish) -> Response:
    """End an attempt. The first end counts; the same end again gets the same answer."""
    result = body.result()

    def work(store: Store, who: Identity, now: float) -> wire.TaskState | AlreadyEnded:
        state = member_work.finish(store, who, body.fence, result, task=id, now=now)
        return state if isinstance(state, AlreadyEnded) else {"task": id, "state": state}

    return await act(request, OWN, work)


@router.post("/tasks/{id}/files", openapi_extra=answers(wire.HeldFiles))
async def claim_files(request: Request, id: TaskNumber, body: bodies.FilesBody) -> Response:
    """Claim more files: all of them, or none if another task holds any."""

    def work(store: Store, who: Identity, now: float) -> wire.HeldFiles:
        held = member_work.claim_files(store, who, body.fence, body.files, task=id, now=now)
        return {"held": held}

    return await act(request, OWN, work)


@router.post("/tasks/{id}/messages", status_code=201, openapi_extra=answers(wire.SentMessage))
async def send_message(request: Request, id: TaskNumber, body: bodies.NewMessage) -> Response:
    """Write a message to the agent or member of a task."""
    root = parts_of(request).project.root

    def work(store: Store, who: Identity, now: float) -> wire.SentMessage:
        message = inbox.send_message(store, who, body.text, root=root, task=id, now=now)
        return {"message": message}

    return await act(request, OWN, work, status=201)


@router.get("/tasks/{id}/messages", openapi_extra=answers(wire.Inbox))
async def read_messages(request: Request, id: TaskNumber, ack: bodies.Ack = None) -> Response:
    """Messages to a task, until its agent confirms them by `ack`."""

    def work(store: Store, who: Identity, now: float) -> wire.Inbox:
        messages, confirms = inbox.read_messages(store, who, task=id, ack=ack, now=now)
        return {"messages": list(messages), "ack": confirms}

    return await act(request, OWN, work)


@router.get("/tasks/{id}/why", openapi_extra=answers(wire.Why))
async def why(request: Request, id: TaskNumber) -> Response:
    """The state of a task and its causes."""

    def work(store: Store, who: Identity, now: float) -> wire.Why:
        return wire.why(explain(store, who, id, now=now))

    return await look(request, OWN, work)


@router.get("/tasks/{id}/logs", openapi_extra=answers(wire.LogLines))
async def logs(
    request: Request,
    id: TaskNumber,
    attempt: Annotated[int | None, Query(ge=1, le=bounds.NUMBER)] = None,
    stderr: bool = False,
    raw: bool = False,
    most: Annotated[int, Query(ge=1, le=_LINES)] = 1000,
) -> Response:
    """The last lines that an attempt's agent printed; without a number, of the latest attempt."""
    parts = parts_of(request)

    def read(who: Identity) -> wire.LogLines:
        task = reading.get_task(parts.store, who, id)
        log = TaskLog(
            project=parts.project,
            store=parts.store,
            task=task,
            stream="stderr" if stderr else "stdout",
            raw=raw,
        )
        return wire.last_lines(log.read(log.get_attempt(attempt)), most)

    return await _read_slowly(request, read)


@router.get("/tasks/{id}/diff", openapi_extra=answers(TaskDiff))
async def diff(request: Request, id: TaskNumber) -> Response:
    """The change of a task, landed or not."""
    parts = parts_of(request)

    def read(who: Identity) -> object:
        reading.get_task(parts.store, who, id)
        return wire.show(get_diff(parts.project, str(id)))

    return await _read_slowly(request, read)


async def _read_slowly(request: Request, read: Callable[[Identity], Any]) -> Response:
    """Answer from files and git, outside a transaction of the store."""

    async def work(who: Identity) -> object:
        return await in_slow_thread(request, lambda: read(who))

    return await act_slowly(request, OWN, work)
