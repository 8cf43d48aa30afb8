"""Members of the swarm: join, list, ping, leave, poll. Their paths keep the older name, agents."""

from __future__ import annotations

import time
from typing import Annotated

from fastapi import APIRouter, Path, Request, Response

from weft.api.http import bodies, wire
from weft.api.http.auth import OWN
from weft.api.http.openapi import answers
from weft.api.http.requests import act, act_slowly, in_thread, look, parts_of, while_connected
from weft.errors import InputError, NotFound
from weft.operations import inbox, membership
from weft.operations.identity import ADMIN, READ, WORK, Identity, find_own_members, has
from weft.operations.member_records import Member
from weft.project.site import agent_names
from weft.store import Store

router = APIRouter(tags=["members"])

MemberId = Annotated[str, Path(min_length=1, max_length=100, description="A member's id.")]


@router.post("/agents", status_code=201, openapi_extra=answers(Member))
async def join(request: Request, body: bodies.Join) -> Response:
    """Join the swarm, or come back to it; the new description replaces the old."""
    project = parts_of(request).project

    def work(store: Store, who: Identity, now: float) -> Member:
        return membership.join(
            store,
            who,
            **body.description(),
            id=body.id,
            usual_tasks=project.config.api_slots,
            agent_files=agent_names(project.root),
            now=now,
        )

    return await act(request, WORK, work, status=201)


@router.get("/agents", openapi_extra=answers(wire.MemberPage))
async def list_members(
    request: Request, after: bodies.After = None, most: bodies.Most = 50
) -> Response:
    """The members of the swarm and their tasks, by id; `after` is for the next page."""

    def work(store: Store, who: Identity, now: float) -> wire.MemberPage:
        shown, more = membership.page_members(store, who, after=after, most=most, now=now)
        return {"agents": shown, "after": more}

    return await look(request, READ, work)


@router.get("/agents/{id}", openapi_extra=answers(Member))
async def get_member(request: Request, id: MemberId) -> Response:
    return await look(
        request,
        READ,
        lambda store, who, now: membership.get_member(store, who, id, now=now),
    )


@router.post("/agents/{id}/ping", openapi_extra=answers(Member))
async def ping(request: Request, id: MemberId) -> Response:
    """A sign of life. A member that polls need not ping."""
    return await act(
        request, WORK, lambda store, who, now: membership.ping(store, who, id, now=now)
    )


@router.post("/agents/{id}/close", openapi_extra=answers(wire.Closed))
async def close(request: Request, id: MemberId) -> Response:
    """Leave the swarm; the member's tasks go back to the pool."""

    def work(store: Store, who: Identity, now: float) -> wire.Closed:
        membership.close(store, who, id, now=now)
        return {"id": id, "closed": True}

    return await act(request, WORK, work)


@router.get("/me", openapi_extra=answers(wire.Me))
async def me(request: Request) -> Response:
    """The caller's token and its members. `X-Weft-Agent` names the acting member."""
    named = request.headers.get("x-weft-agent")

    def work(store: Store, who: Identity, now: float) -> object:
        own = membership.find_own(store, who, now=now) if has(who, WORK) else []
        id = _own(store, who, named) if named is not None or len(own) == 1 else None
        acting = [member for member in own if member.id == id]
        agent = acting[0] if acting else None
        return wire.show(wire.Me(token=who, agent=agent, agents=tuple(own)))

    return await look(request, OWN, work)


@router.post("/poll", openapi_extra=answers(wire.PollAnswer))
async def poll(request: Request, body: bodies.Poll) -> Response:
    """Wait for work or news, for up to `wait_ms`."""
    parts, named = parts_of(request), request.headers.get("x-weft-agent")

    async def work(who: Identity) -> wire.PollAnswer:
        member = await in_thread(request, lambda: acting(parts.store, who, named, now=time.time()))
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


@router.get("/messages", openapi_extra=answers(wire.Inbox))
async def read_messages(request: Request, ack: bodies.Ack = None) -> Response:
    """Messages to the member, until it confirms them by `ack`."""
    named = request.headers.get("x-weft-agent")

    def work(store: Store, who: Identity, now: float) -> wire.Inbox:
        member = acting(store, who, named, now=now)
        messages, confirms = inbox.read_messages(store, who, member=member, ack=ack, now=now)
        return {"messages": list(messages), "ack": confirms}

    return await act(request, WORK, work)


@router.post("/agents/{id}/messages", status_code=201, openapi_extra=answers(wire.SentMessage))
async def send_message(request: Request, id: MemberId, body: bodies.NewMessage) -> Response:
    """Write a message to a member; its next poll brings it."""

    def work(store: Store, who: Identity, now: float) -> wire.SentMessage:
        return {"message": inbox.send_message(store, who, body.text, member=id, now=now)}

    return await act(request, WORK, work, status=201)


def acting(store: Store, who: Identity, named: str | None, *, now: float) -> str:
    """Return the member that a request acts as: the named member, or the only member of the
    token."""
    if named is not None and has(who, ADMIN):
        return membership.get_member(store, who, named, now=now).id
    return _own(store, who, named)


def _own(store: Store, who: Identity, named: str | None) -> str:
    own = find_own_members(store, who, named)
    if len(own) == 1:
        return own[0]
    if not own:
        which = "" if named is None else f" {named!r}"
        raise NotFound(f"This token has no member{which}; join first (POST /v1/agents).")
    raise InputError("This token has several members; name one by the header X-Weft-Agent.")
