"""The worker hosts on which attempts ran."""

from __future__ import annotations

from collections.abc import Iterable

from weft.model import Attempt, WorkerKind
from weft.store import Store
from weft.store.workers import find_workers


def find_hosts(store: Store, attempts: Iterable[Attempt], *, now: float) -> dict[str, str]:
    """Map workers of attempts to the names of their worker hosts, without the workers of home."""
    workers = find_workers(store, {attempt.worker for attempt in attempts}, now=now)
    return {
        id: worker.host
        for id, worker in workers.items()
        if worker.kind is WorkerKind.PROCESS and not worker.gates
    }
