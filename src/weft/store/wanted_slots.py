"""Wanted slots: the number of tasks that could start now if a worker had a slot for each.

The view `weft.wanted` (sql/wanted.sql) counts them for autoscalers by the same rule.
"""

from __future__ import annotations

from collections import Counter

from msgspec import Struct

from weft.store import row_records
from weft.store.database import Transaction
from weft.store.ledger import Ledger
from weft.store.store import reads


class WantedSlots(Struct, frozen=True, kw_only=True):
    repo: str
    labels: tuple[str, ...]  # that the worker must have
    slots: int


@reads
def count_wanted(tx: Transaction, *, now: float) -> list[WantedSlots]:
    """Count the wanted slots by repository and set of labels."""
    ledger = Ledger(tx, now)
    asked: Counter[str] = Counter()
    taken: set[tuple[str, str]] = set()  # the files that earlier tasks ask for
    wanted: Counter[tuple[str, tuple[str, ...]]] = Counter()
    for row in tx.all("wanted_tasks"):
        demand = row_records.demand(row["demand"])
        asked.update(demand)
        files = {(row["repo"], file) for file in row_records.files(row["files"])}
        is_full = any(_is_full(ledger, resource, asked[resource]) for resource in demand)
        if not is_full and taken.isdisjoint(files):
            wanted[row["repo"], tuple(sorted(row_records.labels(row["demand"])))] += 1
        taken |= files
    return [
        WantedSlots(repo=repo, labels=labels, slots=slots)
        for (repo, labels), slots in sorted(wanted.items())
    ]


def _is_full(ledger: Ledger, resource: str, asked: int) -> bool:
    """Tell whether a limit has no room for an amount; the limits of workers and hosts do not
    count."""
    limit = ledger.nominal.get(resource)
    if limit is None or resource.startswith(("worker:", "host:")):
        return False
    return ledger.used.get(resource, 0) + asked > limit
