"""Looking back at a run: everything the store remembers of it, in one transaction."""

from __future__ import annotations

from itertools import groupby

from weft.errors import NotFound
from weft.model import RunHistory, Use
from weft.store import row_records
from weft.store.database import Row, Transaction
from weft.store.gate import read_gate
from weft.store.store import reads


@reads
def read_history(tx: Transaction, run: str, *, now: float) -> RunHistory:
    row = tx.one("run", id=run)
    if row is None:
        raise NotFound(f"There is no run {run}.")
    needs: dict[int, tuple[int, ...]] = {}
    for edge in tx.all("edges_of_run", run=run):
        needs[edge["task"]] = (*needs.get(edge["task"], ()), edge["needs"])
    return RunHistory(
        run=row_records.run(row),
        tasks=tuple(row_records.task(one) for one in tx.all("tasks_of_run", run=run)),
        needs=needs,
        attempts=tuple(row_records.attempt(one) for one in tx.all("attempts_of_run", run=run)),
        gate=read_gate(tx, run),
        outputs={one["number"]: one["output"] for one in tx.all("failed_outputs", run=run)},
        events=tuple(row_records.event(one) for one in tx.all("events_of_run", run=run)),
        uses=_uses(tx, since=row["submitted"], until=now),
        limits={one["resource"]: int(one["capacity"]) for one in tx.all("limits")},
    )


def _uses(tx: Transaction, *, since: float, until: float) -> tuple[Use, ...]:
    rows = tx.all("uses_between", since=since, until=until)
    return tuple(_use(list(group)) for _, group in groupby(rows, key=lambda one: one["fence"]))


def _use(rows: list[Row]) -> Use:
    lease = row_records.lease(rows[0])
    return Use(
        lease=lease,
        run=lease.holder if lease.kind == "check" else rows[0]["run"],
        amounts={one["resource"]: int(one["amount"]) for one in rows},
    )
