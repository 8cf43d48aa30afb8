"""The queue: ready tasks in their order with their waits, and the entries at the gates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from weft.candidate_records import Entry
from weft.model import Task, Wait
from weft.store import Store
from weft.store.probe import queue
from weft.store.store import reads
from weft.store.summaries import list_open_entries
from weft.store.tasks import get_task


class QueueView(Struct, frozen=True, kw_only=True):
    ready: tuple[tuple[Task, tuple[Wait, ...]], ...]  # the first tasks, in order
    count: int  # of all ready tasks
    entries: tuple[Entry, ...]  # open entries by run, in order of arrival
    names: Mapping[str, str]  # names of the tasks of each entry


@reads
def read_queue(store: Store, *, now: float, most: int) -> QueueView:
    first, count = queue(store, now=now, most=most)
    entries = list_open_entries(store)
    return QueueView(
        ready=tuple((task, tuple(waits)) for task, waits in first),
        count=count,
        entries=tuple(entries),
        names=name_entries(store, entries),
    )


def name_entries(store: Store, entries: Sequence[Entry]) -> dict[str, str]:
    """Return the names of each entry's tasks, joined."""
    return {
        entry.id: " + ".join(get_task(store, task).name for task in entry.tasks)
        for entry in entries
    }
