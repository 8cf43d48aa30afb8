"""Members: they join, give signs of life and leave. Status and capacity are derived."""

from __future__ import annotations

import re
import secrets
from collections.abc import Collection, Sequence
from typing import Final

from weft import bounds
from weft.config import API_SLOTS
from weft.errors import Forbidden, InputError
from weft.model import Held, NewMember, Worker, WorkerKind
from weft.operations.identity import READ, WORK, Identity, get_acting, need, need_member
from weft.operations.member_records import Member
from weft.store import Store
from weft.store.members import (
    find_named,
    give_signs,
    list_held,
    list_of_token,
    list_offers,
    part,
)
from weft.store.members import join as register
from weft.store.store import reads, writes
from weft.store.workers import find_workers, get_worker, list_workers, no_worker

_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", re.ASCII)


@writes
def join(
    store: Store,
    who: Identity,
    *,
    name: str,
    id: str | None = None,
    is_lead: bool = False,
    role: str = "",
    capabilities: Sequence[str] = (),
    max_tasks: int | None = None,
    usual_tasks: int = API_SLOTS,
    agent_files: Collection[str] = (),
    now: float,
) -> Member:
    """Join, or join again: by the id, or by the same name with the same token.

    The new description replaces the old description; the member keeps the tasks it holds. Names of
    agent files are refused: a message to such a name means the agent that weft starts.
    `usual_tasks` counts for a member that names no `max_tasks`.
    """
    need(who, WORK)
    if who.fence is not None:
        raise Forbidden(
            "weft started you for a single task; you need not join, and get no other tasks."
        )
    _refuse_unusable(name, id, role, capabilities)
    for taken in {name, id} & set(agent_files):
        raise InputError(f"{taken} is the name of an agent file here; join under another.")
    known = id or find_named(store, who.token, name)
    before = find_workers(store, [known], now=now).get(known) if known else None
    if before is not None:
        need_member(who, before)
    new = NewMember(
        id=known or _fresh_id(name),
        name=name,
        slots=min(usual_tasks, bounds.TASKS) if max_tasks is None else max_tasks,
        # An admin may bring it back, but does not take it over.
        token=who.token if before is None or before.token is None else before.token,
        is_lead=is_lead,
        role=role,
        capabilities=tuple(capabilities),
    )
    register(store, new, now=now)
    return _get(store, new.id, now=now)


def _refuse_unusable(name: str, id: str | None, role: str, capabilities: Sequence[str]) -> None:
    if not name.strip():
        raise InputError("A member needs a name.")
    if id is not None and not _ID.fullmatch(id):
        raise InputError("An id has up to 100 letters, digits, dots, dashes and underscores.")
    for text in (name, role, *capabilities):
        if len(text) > bounds.NAME or not text.isprintable():
            raise InputError(
                f"Names, roles and capabilities have up to {bounds.NAME} printable characters."
            )
    if len(capabilities) > bounds.CAPABILITIES or not all(name.strip() for name in capabilities):
        raise InputError(
            f"A member has up to {bounds.CAPABILITIES} capabilities, none of them empty."
        )


def _fresh_id(name: str) -> str:
    """Return an id that people recognise and that no other member has."""
    word = "-".join(re.findall(r"[a-z0-9]+", name.lower()))[:32].strip("-")
    return f"{word or 'member'}-{secrets.token_hex(4)}"


@reads
def get_member(store: Store, who: Identity, id: str, *, now: float) -> Member:
    need(who, READ)
    worker = get_worker(store, id, now=now)
    if worker.kind is not WorkerKind.API or worker.token is None:
        raise no_worker(worker.id)
    return _get(store, id, now=now)


@reads
def find_own(store: Store, who: Identity, *, now: float) -> list[Member]:
    """List the present members of this token; `access.find_own_members` costs less."""
    need(who, WORK)
    return [_get(store, id, now=now) for id in list_of_token(store, who.token)]


@reads
def list_members(store: Store, who: Identity, *, now: float) -> list[Member]:
    """List the present members."""
    need(who, READ)
    held, offers = list_held(store), list_offers(store)
    return [
        _member(worker, held.get(worker.id, []), offers.get(worker.id, []))
        for worker in list_workers(store, now=now)
        if worker.token is not None
    ]


def page_members(
    store: Store, who: Identity, *, after: str | None, most: int, now: float
) -> tuple[list[Member], str | None]:
    """Return the members after an id, in order of id, and the id for the next page; None: the last
    page."""
    members = [member for member in list_members(store, who, now=now) if member.id > (after or "")]
    rest = sorted(members, key=lambda member: member.id)
    return rest[:most], rest[most - 1].id if len(rest) > most else None


@writes
def ping(store: Store, who: Identity, id: str, *, now: float) -> Member:
    """Record a sign of life, for the member and all tasks that it holds."""
    get_acting(store, who, id, now=now)
    give_signs(store, [id], now=now)
    return _get(store, id, now=now)


@writes
def close(store: Store, who: Identity, id: str, *, now: float) -> None:
    """Leave. The tasks that it holds or was offered are free at once; a repeated call changes
    nothing."""
    need_member(who, get_worker(store, id, now=now))
    part(store, id, now=now)


def _get(store: Store, id: str, *, now: float) -> Member:
    held, offers = list_held(store, id), list_offers(store, id)
    return _member(get_worker(store, id, now=now), held.get(id, []), offers.get(id, []))


def _member(worker: Worker, held: Sequence[Held], offers: Sequence[int]) -> Member:
    return Member(
        id=worker.id,
        name=worker.name,
        is_lead=worker.is_lead,
        role=worker.role,
        capabilities=worker.capabilities,
        status=worker.status,
        capacity=worker.capacity,
        tasks=tuple(held),
        offers=tuple(offers),
        seen=worker.seen,
    )
