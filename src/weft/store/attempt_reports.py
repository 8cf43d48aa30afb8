"""Reports of running attempts: progress, changes around them, calls of tools, proposed steps.

A report under a fence that is not current is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from weft.errors import Refused, StaleFence
from weft.store.database import Transaction
from weft.store.leases import require_current
from weft.store.store import writes

MOST_REPORTED: Final = 20
"""The pieces of work that the attempts of a task report: a person reads them all."""


@writes
def report(tx: Transaction, fence: int, data: Mapping[str, object], *, now: float) -> None:
    """Log the progress of a running attempt."""
    _, task = require_current(tx, fence)
    tx.log("progress", {**data, "fence": fence}, now=now, run=task["run"], task=task["id"])


@writes
def report_all(
    tx: Transaction, reports: Sequence[tuple[int, Mapping[str, object]]], *, now: float
) -> list[int]:
    """Log the progress of many attempts; return the fences that are no longer current."""
    lost = []
    for fence, data in reports:
        try:
            _, task = require_current(tx, fence)
        except StaleFence:
            lost.append(fence)
            continue
        tx.log("progress", {**data, "fence": fence}, now=now, run=task["run"], task=task["id"])
    return lost


@writes
def report_work(tx: Transaction, fence: int, work: str, text: str, *, now: float) -> int:
    """Log a piece of work that a running attempt came across; return its task."""
    _, task = require_current(tx, fence)
    reported = tx.all("events_of_kind", run=task["run"], kind="work_reported")
    if sum(row["task"] == task["id"] for row in reported) >= MOST_REPORTED:
        raise Refused(f"A task reports at most {MOST_REPORTED} pieces of work.")
    tx.event("work_reported", task, now=now, work=" ".join(work.split()), text=text)
    return int(task["id"])


@writes
def note_call(
    tx: Transaction,
    fence: int,
    tool: str,
    arguments: Mapping[str, object],
    answer: str,
    *,
    refused: bool,
    now: float,
) -> None:
    """Log a call of one of weft's tools by the agent of an attempt."""
    lease, task = require_current(tx, fence)
    tx.event(
        "tool_called",
        task,
        now=now,
        attempt=lease["attempt"],
        tool=tool,
        arguments=arguments,
        answer=answer,
        refused=refused,
    )


@writes
def propose_step(
    tx: Transaction, fence: int, proposal: Mapping[str, object], *, now: float
) -> None:
    """Record the step with which an attempt wants to end."""
    lease, task = require_current(tx, fence)
    tx.event("step_proposed", task, now=now, attempt=lease["attempt"], proposal=proposal)


@writes
def refuse_step(tx: Transaction, fence: int, reason: str, *, now: float) -> None:
    """Record that the proposal of an attempt was refused."""
    lease, task = require_current(tx, fence)
    tx.event("step_refused", task, now=now, attempt=lease["attempt"], reason=reason)
