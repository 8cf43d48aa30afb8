"""Tasks as somebody may see them."""

from __future__ import annotations

from weft.model import Task
from weft.operations.swarm.identity import Identity
from weft.operations.swarm.records import Filter, Page
from weft.store import Store


def list_tasks(
    store: Store, who: Identity, which: Filter, *, after: int = 0, most: int = 100
) -> Page:
    raise NotImplementedError


def get_task(store: Store, who: Identity, task: int) -> Task:
    raise NotImplementedError
