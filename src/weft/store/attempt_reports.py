"""Reports of running attempts, and records of ended attempts: failures, durations, files.

A report under a fence that is not current is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct, to_builtins

from weft.errors import Refused, StaleFence
from weft.model import AttemptFiles, Outcome
from weft.store import row_records
from weft.store.database import Row, Transaction, encode
from weft.store.leases import require_current
from weft.store.store import reads, writes

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
            report(tx, fence, data, now=now)
        except StaleFence:
            lost.append(fence)
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


_MOST_PATHS: Final = 200  # of a list that is kept
_LATEST: Final = 300  # attempts from which predictions learn
_RECENT: Final = 90 * 86_400.0  # seconds for which the durations of attempts count


class AttemptSeconds(Struct, frozen=True, kw_only=True):
    """Mean seconds of attempts; None without any."""

    usual: float | None = None  # that changed files
    redone: float | None = None  # that were sent back for files which other tasks held


def keep_files(tx: Transaction, task: Row, attempt: int, outcome: Outcome, *, now: float) -> None:
    """Keep the files of an attempt, if its outcome knows them."""
    if outcome.changed is None:
        return
    predicted = row_records.request(task).predicted
    asked = set(outcome.asked)
    claims = [] if predicted else list(row_records.files(task["files"]))
    tx.run(
        "add_attempt_files",
        task=task["id"],
        attempt=attempt,
        repo=task["repo"],
        at=now,
        predicted=encode(to_builtins(predicted)),
        declared=_encode(tx, (claim for claim in claims if claim not in asked)),
        asked=_encode(tx, outcome.asked),
        changed=_encode(tx, outcome.changed),
    )


def _encode(tx: Transaction, paths: Iterable[str]) -> str:
    return encode([tx.redact(path) for path in paths][:_MOST_PATHS])


@reads
def list_attempt_files(tx: Transaction, repo: str) -> list[AttemptFiles]:
    """List the files of the latest attempts at a repository, latest first."""
    columns = ("predicted", "declared", "asked", "changed")
    rows = tx.all("attempt_files", repo=repo, most=_LATEST)
    return [row_records.record(AttemptFiles, row, *columns) for row in rows]


@reads
def list_held_patterns(tx: Transaction, repo: str) -> list[tuple[str, int]]:
    """List the patterns that tasks of a repository hold now, each with its task."""
    return [(row["pattern"], row["task"]) for row in tx.all("claims", repo=repo)]


@reads
def measure_attempts(tx: Transaction, repo: str, *, now: float) -> AttemptSeconds:
    """Return the mean seconds of the attempts at a repository in the last 90 days."""
    row = tx.one("attempt_seconds", repo=repo, since=now - _RECENT)
    return AttemptSeconds() if row is None else AttemptSeconds(**row)
