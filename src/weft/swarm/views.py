"""Tasks, their reasons and limits, as far as an identity may see them.

A tenant sees the limits that all tenants share, since its tasks may wait for them, and its own;
not the files, hosts and workers of other tenants.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import replace

from weft.errors import Forbidden, InputError
from weft.model import Filter, Limit, Task
from weft.runs.explanation import Explanation, explain_task
from weft.store import Store, limit_table, summaries
from weft.store.runs import list_runs
from weft.store.store import reads
from weft.swarm.access import get_visible_task
from weft.swarm.identity import READ, Identity, is_foreign, need
from weft.swarm.membership import list_members
from weft.swarm.swarm_records import Page

MOST: Final = 500
"""Tasks on a page, at most."""

_OF_RUNS: Final = ("run", "stage", "gate")  # `run:<id>/agents`
_SHARED: Final = ("agent", "provider")


def list_tasks(
    store: Store, who: Identity, which: Filter, *, after: int = 0, most: int = 100
) -> Page:
    """Return a page of tasks, oldest first. Only `after` tells whether there may be more: a page
    can be short although it is not the last."""
    allowed = _allowed(who, which, most)
    tasks, more = summaries.list_summaries(store, allowed, after=after, most=most)
    return Page(tasks=tuple(tasks), after=more)


def list_lines(
    store: Store, who: Identity, which: Filter, *, after: int = 0, most: int = 100
) -> tuple[list[dict[str, Any]], int | None]:
    """Return the fields of the same tasks without building records."""
    allowed = _allowed(who, which, most)
    return summaries.list_lines(store, allowed, after=after, most=most)


def _allowed(who: Identity, which: Filter, most: int) -> Filter:
    need(who, READ)
    if not 1 <= most <= MOST:
        raise InputError(f"A page has from 1 to {MOST} tasks, not {most}.")
    if which.tenant is not None and is_foreign(who, which.tenant):
        raise Forbidden("This token is for another tenant.")
    return replace(which, tenant=which.tenant or who.tenant)


@reads
def get_task(store: Store, who: Identity, task: int) -> Task:
    return get_visible_task(store, who, task)


@reads
def explain(store: Store, who: Identity, task: int, *, now: float) -> Explanation:
    """Explain the state of a task that this identity may see."""
    get_visible_task(store, who, task)
    return explain_task(store, str(task), now=now, tenant=who.tenant)


@reads
def list_limits(store: Store, who: Identity, *, now: float) -> list[Limit]:
    need(who, READ)
    limits = limit_table.list_limits(store, now=now)
    if who.tenant is None:
        return limits
    runs = {run.id for run in list_runs(store) if run.tenant == who.tenant}
    members = {member.id for member in list_members(store, who, now=now)}
    return [
        replace(limit, owner=_owner(limit))
        for limit in limits
        if _is_visible(limit.resource, runs, members)
    ]


def _is_visible(resource: str, runs: set[str], members: set[str]) -> bool:
    kind, colon, rest = resource.partition(":")
    if kind in _OF_RUNS and colon:
        return rest.partition("/")[0] in runs
    return not colon or kind in _SHARED or (kind == "worker" and rest in members)


def _owner(limit: Limit) -> str | None:
    """Return the owner of a limit without the path of an agent file."""
    of_file = limit.owner is not None and limit.resource.startswith("agent:")
    return "its agent file" if of_file else limit.owner
