"""The slots of present workers that have the labels which tasks need."""

from __future__ import annotations

from collections.abc import Iterable

from weft.model import WorkerKind
from weft.store import Store
from weft.store.workers import list_workers


def count_labelled_slots(
    store: Store, needs: Iterable[frozenset[str]], *, now: float
) -> dict[frozenset[str], int]:
    """Map each set of labels but the empty set to the slots of the workers that have them all."""
    asked = set(needs) - {frozenset()}
    if not asked:
        return {}
    workers = [
        worker for worker in list_workers(store, now=now) if worker.kind is WorkerKind.PROCESS
    ]
    return {
        labels: sum(worker.capacity.max for worker in workers if labels <= set(worker.labels))
        for labels in asked
    }
