"""What there is to see at a glance, for `weft ps`.

Imports little on purpose, and so speaks of states by their names: the records of `model` alone
would take a good part of the time in which people should have their answer.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from msgspec import Struct

from weft.store.database import Row, Transaction
from weft.store.store import reads


class WorkerView(Struct, frozen=True, kw_only=True):
    """A task at a glance."""

    id: int
    run: str | None
    name: str
    title: str
    state: str
    since: float
    reason: str
    until: float | None
    agent: str | None
    stage: str | None
    worker: str | None  # of its latest attempt
    attempt: int
    started: float | None  # its attempt, if that has not ended


class Overview(Struct, frozen=True, kw_only=True):
    runs: Mapping[str, Mapping[str, int]]  # how many tasks are in each state; "": of no run
    waiting: tuple[str, ...]  # runs that wait for a place
    gates: Mapping[str, str]  # runs whose gate waits for a person, and why
    tasks: tuple[WorkerView, ...]  # all but those that wait, are ready or have ended
    stopped: Mapping[str, str]  # agents nobody may start, and why
    drained: float | None  # since when nothing is admitted


@reads
def overview(tx: Transaction, *, most: int) -> Overview:
    """What has not ended, with the first `most` of what is at work or needs a person."""
    runs = tx.all("unended_runs")
    counts: dict[str, dict[str, int]] = {row["id"]: {} for row in runs}
    for row in tx.all("counts_by_run"):
        counts.setdefault(row["run"] or "", {})[row["state"]] = int(row["tasks"])
    return Overview(
        runs=counts,
        waiting=tuple(row["id"] for row in runs if row["state"] == "waiting"),
        gates={row["id"]: row["blocked"] for row in runs if row["blocked"]},
        tasks=tuple(_seen(row) for row in tx.all("tasks_at_work", most=most)),
        stopped={row["agent"]: row["reason"] for row in tx.all("stopped_agents")},
        drained=tx.value("drained"),
    )


def _seen(row: Row) -> WorkerView:
    return WorkerView(
        id=row["id"],
        run=row["run"],
        name=row["name"],
        title=title(row),
        state=row["state"],
        since=row["since"],
        reason=row["reason"],
        until=row["until"],
        agent=row["agent"],
        stage=row["stage"],
        worker=row["offered_to"] or row["worker"],
        attempt=row["attempt"],
        started=row["started"] if row["ended"] is None else None,
    )


def title(row: Row) -> str:
    given = json.loads(row["request"]).get("title") or row["text"]
    return next((line.strip() for line in str(given).splitlines() if line.strip()), row["name"])
