"""Tasks as somebody may see them."""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import replace

from weft.errors import Forbidden, InputError
from weft.model import Task
from weft.store import Store
from weft.store import summaries as store_looking
from weft.store.store import reads
from weft.store.summaries import list_summaries
from weft.swarm.access import get_visible_task
from weft.swarm.identity import READ, Identity, is_foreign, need
from weft.swarm.swarm_records import Filter, Page

MOST: Final = 500
"""Tasks on a page, at most."""


def list_tasks(
    store: Store, who: Identity, which: Filter, *, after: int = 0, most: int = 100
) -> Page:
    """A page of tasks, oldest first. Only `after` says whether there may be more: a page can be
    short although it is not the last."""
    allowed = _allowed(who, which, most)
    found, more = list_summaries(store, allowed, after=after, most=most)
    return Page(tasks=tuple(found), after=more)


def list_lines(
    store: Store, who: Identity, which: Filter, *, after: int = 0, most: int = 100
) -> tuple[list[dict[str, Any]], int | None]:
    """The same as plain fields, for those who only pass them on."""
    allowed = _allowed(who, which, most)
    return store_looking.list_lines(store, allowed, after=after, most=most)


def _allowed(who: Identity, which: Filter, most: int) -> Filter:
    need(who, READ)
    if not 1 <= most <= MOST:
        raise InputError(f"A page has from 1 to {MOST} tasks, not {most}.")
    if which.tenant is not None and is_foreign(who, which.tenant):
        raise Forbidden("This token is for another tenant.")
    return replace(which, tenant=which.tenant or who.tenant)


@reads
def get_task(store: Store, who: Identity, task: int) -> Task:
    """One task, if this identity may look at it."""
    return get_visible_task(store, who, task)
