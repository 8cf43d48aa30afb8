"""The history of a run, of which its report is made."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby

from msgspec import Struct

from weft.candidate_records import GateRows
from weft.model import Attempt, Demand, Event, Lease, Run, Task
from weft.store import row_records
from weft.store.database import Row, Transaction
from weft.store.gate import read_gate
from weft.store.runs import get_run_row
from weft.store.store import reads


class Use(Struct, frozen=True, kw_only=True):
    """The amounts that a lease took, current or past."""

    lease: Lease
    run: str | None  # for which it was
    amounts: Demand


class RunHistory(Struct, frozen=True, kw_only=True):
    """A run from its submission on, as the store remembers it."""

    run: Run
    tasks: tuple[Task, ...]
    needs: Mapping[int, tuple[int, ...]]
    attempts: tuple[Attempt, ...]
    gate: GateRows
    outputs: Mapping[int, str]  # output of failed checks, by number of the verdict
    events: tuple[Event, ...]  # of the run and of limits; no progress of agents
    uses: tuple[Use, ...]  # of attempts and checks meanwhile, those of other runs included
    limits: Mapping[str, int]  # as they are now


@reads
def read_history(tx: Transaction, run: str, *, now: float) -> RunHistory:
    row = get_run_row(tx, run)
    needs: dict[int, tuple[int, ...]] = {}
    for edge in tx.all("edges_of_run", run=run):
        needs[edge["task"]] = (*needs.get(edge["task"], ()), edge["needs"])
    return RunHistory(
        run=row_records.run(row),
        tasks=tuple(row_records.task(row) for row in tx.all("tasks_of_run", run=run)),
        needs=needs,
        attempts=tuple(row_records.attempt(row) for row in tx.all("attempts_of_run", run=run)),
        gate=read_gate(tx, run),
        outputs={row["number"]: row["output"] for row in tx.all("failed_outputs", run=run)},
        events=tuple(row_records.event(row) for row in tx.all("events_of_run", run=run)),
        uses=_uses(tx, since=row["submitted"], until=now),
        limits={row["resource"]: int(row["capacity"]) for row in tx.all("limits")},
    )


def _uses(tx: Transaction, *, since: float, until: float) -> tuple[Use, ...]:
    rows = tx.all("uses_between", since=since, until=until)
    return tuple(_use(list(group)) for _, group in groupby(rows, key=lambda row: row["fence"]))


def _use(rows: list[Row]) -> Use:
    lease = row_records.lease(rows[0])
    return Use(
        lease=lease,
        run=lease.holder if lease.kind == "check" else rows[0]["run"],
        amounts={row["resource"]: int(row["amount"]) for row in rows},
    )
