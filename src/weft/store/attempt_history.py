"""Ends of earlier attempts: their failures, answers and durations."""

from __future__ import annotations

from weft.store.database import Transaction
from weft.store.store import reads


@reads
def count_failures(tx: Transaction, task: int, kind: str) -> int:
    """Count the failures of this kind in a row, up to now."""
    kinds = [row["kind"] for row in tx.all("failures_of", task=task)]
    return next((n for n, failure in enumerate(kinds) if failure != kind), len(kinds))


@reads
def find_answer(tx: Transaction, fence: int) -> tuple[str, str] | None:
    """Return the outcome of an attempt that was finished under a fence, and its result or
    reason."""
    row = tx.one("answer_under", fence=fence)
    return None if row is None else (row["outcome"], row["answer"])


@reads
def attempts_per_task(tx: Transaction, agent: str, stage: str, *, most: int = 100) -> float:
    """Return how many attempts a success of this agent in this stage took lately, 1 or more."""
    row = tx.one("tries_alike", agent=agent, stage=stage, most=most)
    return max(1.0, row["attempts"] / row["tasks"]) if row is not None and row["tasks"] else 1.0


@reads
def durations(
    tx: Transaction, agent: str, stage: str, *, most: int = 100
) -> list[tuple[int, float]]:
    """List the latest durations of successes of this kind, as (files, seconds)."""
    rows = tx.all("durations_alike", agent=agent, stage=stage, most=most)
    return [(row["size"], row["seconds"]) for row in rows]
