"""The files of attempts: predicted, declared, asked for, changed. Predictions learn from them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec import Struct, to_builtins

from weft.model import AttemptFiles, Outcome
from weft.store import row_records
from weft.store.database import Row, Transaction, encode
from weft.store.store import reads

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
