"""The acts of the page: an operation for each button, for admins; messages for workers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Request, Response
from pydantic import Field

from weft import bounds
from weft.admission.capacity import is_consumable
from weft.api.http.bodies import Body
from weft.api.http.requests import act, act_slowly, in_slow_thread, parts_of
from weft.errors import InputError
from weft.formats import micro_dollars
from weft.runs import control
from weft.runs.agent_change import retry_with_agent
from weft.runs.control import ControlResult
from weft.runs.team_comparison import choose_candidate
from weft.store import Store
from weft.store.limit_table import resume_agent, set_limit
from weft.swarm import inbox
from weft.swarm.identity import ADMIN, WORK, Identity

router = APIRouter(prefix="/page/act", include_in_schema=False)

Number = Annotated[int, Field(ge=1, le=bounds.NUMBER)]
Words = Annotated[str, Field(max_length=bounds.MESSAGE)]
ShortName = Annotated[str, Field(min_length=1, max_length=200)]


class TaskAct(Body):
    task: Number


class RejectAct(TaskAct):
    text: Words = ""


class AnswerAct(TaskAct):
    text: Words


class ChooseAct(TaskAct):
    entrant: Number


class RetryAct(TaskAct):
    note: Words = ""
    agent: Annotated[str, Field(max_length=100)] = ""
    files: list[ShortName] = Field(default=[], max_length=100)


class NamedAct(Body):
    name: ShortName  # of a task or run


class AgentAct(Body):
    agent: ShortName


class LimitAct(Body):
    resource: ShortName
    value: Annotated[str, Field(max_length=30)]


class DrainAct(Body):
    undo: bool = False


class MessageAct(TaskAct):
    text: Words


@router.post("/approve")
async def approve(request: Request, body: TaskAct) -> Response:
    return await _control(
        request, lambda store, now: control.approve(store, str(body.task), now=now)
    )


@router.post("/reject")
async def reject(request: Request, body: RejectAct) -> Response:
    return await _control(
        request, lambda store, now: control.reject(store, str(body.task), body.text, now=now)
    )


@router.post("/skip")
async def skip(request: Request, body: TaskAct) -> Response:
    return await _control(request, lambda store, now: control.skip(store, str(body.task), now=now))


@router.post("/answer")
async def answer(request: Request, body: AnswerAct) -> Response:
    return await _control(
        request, lambda store, now: control.answer(store, str(body.task), body.text, now=now)
    )


@router.post("/choose")
async def choose(request: Request, body: ChooseAct) -> Response:
    def work(store: Store, now: float) -> ControlResult:
        name = choose_candidate(store, str(body.task), body.entrant)
        return ControlResult(text=f"Entrant {body.entrant} was chosen for task {name}.")

    return await _control(request, work)


@router.post("/retry")
async def retry(request: Request, body: RetryAct) -> Response:
    if not body.agent:
        return await _control(
            request,
            lambda store, now: control.retry(
                store, str(body.task), now=now, note=body.note, files=body.files
            ),
        )
    project = parts_of(request).project

    async def work(who: Identity) -> ControlResult:
        return await in_slow_thread(
            request,
            lambda: retry_with_agent(
                project, str(body.task), body.agent, body.note, tuple(body.files)
            ),
        )

    return await act_slowly(request, ADMIN, work)


@router.post("/pause")
async def pause(request: Request, body: NamedAct) -> Response:
    return await _control(request, lambda store, now: control.pause(store, body.name, now=now))


@router.post("/resume")
async def resume(request: Request, body: NamedAct) -> Response:
    return await _control(request, lambda store, now: control.resume(store, body.name, now=now))


@router.post("/cancel")
async def cancel(request: Request, body: NamedAct) -> Response:
    return await _control(request, lambda store, now: control.cancel(store, body.name, now=now))


@router.post("/resume-agent")
async def let_agent_start(request: Request, body: AgentAct) -> Response:
    def work(store: Store, now: float) -> ControlResult:
        changed = resume_agent(store, body.agent, now=now)
        return ControlResult(text=f"Agent {body.agent} may start again.", changed=changed)

    return await _control(request, work)


@router.post("/limit")
async def limit(request: Request, body: LimitAct) -> Response:
    def work(store: Store, now: float) -> ControlResult:
        set_limit(store, body.resource, _amount(body), now=now)
        return ControlResult(text=f"The limit {body.resource} is {body.value} from now on.")

    return await _control(request, work)


def _amount(body: LimitAct) -> int:
    if is_consumable(body.resource):
        amount = micro_dollars(body.value)
    else:
        amount = int(body.value) if body.value.isascii() and body.value.isdecimal() else None
    if amount is None:
        raise InputError(f"{body.value[:30]!r} is no value of the limit {body.resource}.")
    return amount


@router.post("/drain")
async def drain(request: Request, body: DrainAct) -> Response:
    verb = control.admit_again if body.undo else control.stop_admissions
    return await _control(request, lambda store, now: verb(store, now=now))


@router.post("/message")
async def message(request: Request, body: MessageAct) -> Response:
    root = parts_of(request).project.root

    def work(store: Store, who: Identity, now: float) -> ControlResult:
        inbox.send_message(store, who, body.text, root=root, task=body.task, now=now)
        return ControlResult(text="The message is sent; the agent gets it at its next step.")

    return await act(request, WORK, work)


async def _control(request: Request, work: Callable[[Store, float], ControlResult]) -> Response:
    return await act(request, ADMIN, lambda store, who, now: work(store, now))
