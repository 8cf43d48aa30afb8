"""The tasks that have not ended, in pages: a light index of all, full rows for a page."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from weft.store.database import Transaction, encode_keys
from weft.store.overview import WorkerView, view_of
from weft.store.store import reads


class WorkKey(Struct, frozen=True, kw_only=True):
    """The columns of a task that its group depends on."""

    id: int
    run: str | None
    state: str
    agent: str | None
    stage: str | None
    reason: str


@reads
def list_work(tx: Transaction, *, run: str | None = None, words: str = "") -> list[WorkKey]:
    """List the unended tasks that contain these words in their name, agent or text."""
    plain = words.strip().lower().replace("!", "!!").replace("%", "!%").replace("_", "!_")
    like = f"%{plain}%" if plain else None
    return [WorkKey(**row) for row in tx.all("work_index", run=run, like=like)]


@reads
def view_work(tx: Transaction, tasks: Iterable[int]) -> list[WorkerView]:
    rows = tx.all("work_rows", ids=encode_keys(map(str, tasks)))
    return [view_of(row) for row in rows]


class TaskClaim(Struct, frozen=True, kw_only=True):
    """A claim and the task that holds it."""

    task: int
    pattern: str
    run: str | None
    name: str
    state: str
    stage: str | None
    agent: str | None
    reason: str


@reads
def list_held_files(tx: Transaction) -> list[TaskClaim]:
    return [TaskClaim(**row) for row in tx.all("held_files")]


@reads
def list_unmet_needs(tx: Transaction, tasks: Iterable[int]) -> dict[int, list[str]]:
    """Map waiting tasks to the names of the needs they wait for; '': an earlier phase."""
    unmet: dict[int, list[str]] = {}
    for row in tx.all("unmet_needs_of", tasks=encode_keys(map(str, tasks))):
        unmet.setdefault(row["task"], []).append(row["name"] if row["agent"] is not None else "")
    return unmet
