"""Tasks and their reasons, as far as an identity may see them."""

from __future__ import annotations

from typing import Any, Final

from weft.errors import InputError
from weft.model import Filter, Task
from weft.operations.identity import READ, Identity, get_visible_task, need
from weft.operations.member_records import Page
from weft.runs.explanation import Explanation, explain_task
from weft.store import Store, summaries
from weft.store.store import reads

MOST: Final = 500
"""Tasks on a page, at most."""


def list_tasks(
    store: Store, who: Identity, which: Filter, *, after: int = 0, most: int = 100
) -> Page:
    """Return a page of tasks, oldest first. Only `after` tells whether there may be more: a page
    can be short although it is not the last."""
    _require_page(who, most)
    tasks, more = summaries.list_summaries(store, which, after=after, most=most)
    return Page(tasks=tuple(tasks), after=more)


def list_lines(
    store: Store, who: Identity, which: Filter, *, after: int = 0, most: int = 100
) -> tuple[list[dict[str, Any]], int | None]:
    """Return the fields of the same tasks without building records."""
    _require_page(who, most)
    return summaries.list_lines(store, which, after=after, most=most)


def _require_page(who: Identity, most: int) -> None:
    need(who, READ)
    if not 1 <= most <= MOST:
        raise InputError(f"A page has from 1 to {MOST} tasks, not {most}.")


@reads
def get_task(store: Store, who: Identity, task: int) -> Task:
    return get_visible_task(store, who, task)


@reads
def explain(store: Store, who: Identity, task: int, *, now: float) -> Explanation:
    """Explain the state of a task that this identity may see."""
    get_visible_task(store, who, task)
    return explain_task(store, str(task), now=now)
