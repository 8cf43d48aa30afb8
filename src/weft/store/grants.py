"""Writing a lease down, with everything it takes."""

from __future__ import annotations

from weft.store.database import Transaction


def write_lease(
    tx: Transaction,
    fence: int,
    kind: str,
    holder: str,
    costs: str,
    *,
    now: float,
    deadline: float | None,
    worker: str | None = None,
    host: str | None = None,
    task: int | None = None,
    attempt: int | None = None,
    turn: str | None = None,
) -> None:
    """`costs` are the amounts as a JSON object; `turn` the tenant whose admission this is."""
    tx.run(
        "add_lease",
        fence=fence,
        kind=kind,
        holder=holder,
        task=task,
        attempt=attempt,
        worker=worker,
        host=host,
        granted=now,
        deadline=deadline,
        turn=turn,
    )
    tx.run("add_costs", fence=fence, costs=costs)
