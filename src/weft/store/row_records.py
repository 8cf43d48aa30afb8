"""Rows into records."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, TypeVar

import msgspec

from weft import candidate_records, model
from weft.admission import capacity
from weft.admission.order import QueueEntry
from weft.config import CommitSettings, GateSettings, RunSettings, WorkspaceSettings
from weft.errors import NotFound
from weft.store.database import Row, Transaction, encode, storable
from weft.words import task_label

T = TypeVar("T")

_REQUEST: Final = msgspec.json.Decoder(model.TaskRequest)


@functools.lru_cache(maxsize=4096)
def demand(text: str) -> Mapping[str, int]:
    return MappingProxyType(json.loads(text))


@functools.lru_cache(maxsize=4096)
def placed_demand(text: str, worker: str, host: str) -> tuple[Mapping[str, int], str]:
    """Return the demand of a task at a worker, also as canonical JSON."""
    resolved = capacity.resolve(demand(text), worker, host)
    return MappingProxyType(resolved), encode(resolved)


@functools.lru_cache(maxsize=4096)
def labels(text: str) -> frozenset[str]:
    """Return the labels that the demand of a task asks of its worker."""
    return capacity.list_labels(demand(text))


@functools.lru_cache(maxsize=4096)
def files(text: str) -> tuple[str, ...]:
    return tuple(json.loads(text))


@functools.lru_cache(maxsize=256)
def agents(text: str) -> Mapping[str, Mapping[str, object]]:
    """Return the agents of a worker: by name, the file and its limit."""
    return MappingProxyType(json.loads(text))


@functools.lru_cache(maxsize=256)
def names(text: str) -> frozenset[str]:
    """The keys of a JSON object."""
    return frozenset(json.loads(text))


@functools.lru_cache(maxsize=256)
def unable(text: str) -> frozenset[str]:
    """Return the agents of a worker process whose programs it lacks."""
    return frozenset(name for name, about in agents(text).items() if not about.get("able", True))


def record(kind: type[T], row: Row, *columns: str, **parsed: Any) -> T:
    """Build a record from the columns named like its fields.

    `columns` hold JSON; `parsed` has the fields without a column of their form.
    """
    decoded = {column: json.loads(row[column]) for column in columns}
    return msgspec.convert({**row, **decoded, **parsed}, kind, strict=False)  # SQLite: 0 is False


summary = functools.partial(record, model.Summary)
attempt = functools.partial(record, model.Attempt)
lease = functools.partial(record, model.Lease)
branch_landing = functools.partial(record, candidate_records.BranchLanding)
message = functools.partial(record, model.Message)
review = functools.partial(record, candidate_records.Review)
comment = functools.partial(record, candidate_records.ReviewComment)


def run(row: Row) -> model.Run:
    return record(model.Run, row, "alternates", check=gate_settings(row["gate"]).run)


def run_settings(row: Row) -> RunSettings:
    workspace = msgspec.json.decode(row["workspace"], type=WorkspaceSettings)
    own = msgspec.json.decode(row["gate"], type=_RunOwn)
    return record(
        RunSettings,
        row,
        "agents",
        gate=gate_settings(row["gate"]),
        workspace=workspace,
        agent=own.agent,
        known_red=own.known_red,
        prose=own.prose,
        recorded=own.recorded,
        fast=own.fast,
        commit=own.commit,
    )


class _RunOwn(msgspec.Struct, frozen=True):
    """Settings that a run does not have from `weft.toml`, kept beside those of the gate."""

    agent: str = "implement"
    known_red: tuple[str, ...] = ()
    prose: Mapping[str, str] = {}
    recorded: str = ""
    fast: bool = False
    commit: CommitSettings = msgspec.field(default_factory=CommitSettings)


@functools.lru_cache(maxsize=256)
def gate_settings(text: str) -> GateSettings:
    return msgspec.json.decode(text, type=GateSettings)


def request(row: Row) -> model.TaskRequest:
    return _REQUEST.decode(row["request"])


def request_text(asked: model.TaskRequest) -> str:
    """JSON that `request` reads back; a half character, which JSON cannot hold, becomes `?`."""
    try:
        return msgspec.json.encode(asked).decode()
    except UnicodeEncodeError:
        return storable(json.dumps(msgspec.to_builtins(asked), ensure_ascii=False))


def get_task_row(tx: Transaction, task: int) -> Row:
    row = tx.one("task", id=task)
    if row is None:
        raise NotFound(f"There is no task {task}.")
    return row


def get_run_row(tx: Transaction, run: str) -> Row:
    row = tx.one("run", id=run)
    if row is None:
        raise NotFound(f"There is no run {run}.")
    return row


def label(row: Row) -> str:
    """Name a task for people: `RUN/1.2`, or its number if it belongs to no run."""
    return task_label(row["id"], row["run"], row["name"])


def task(row: Row) -> model.Task:
    return record(
        model.Task,
        row,
        "attached",
        request=request(row),
        klass=row["class"],
        demand=demand(row["demand"]),
        files=files(row["files"]),
    )


def queue_entry(row: Row) -> QueueEntry:
    return QueueEntry(
        id=row["id"],
        klass=row["class"],
        priority=row["priority"],
        path_seconds=row["path_seconds"],
        submitted=row["submitted"],
    )


def event(row: Row) -> model.Event:
    return record(model.Event, row, "data")


def find_notice(row: Row) -> model.Notice | None:
    """Read an event as the end of its task; return None if it is not its end."""
    data = json.loads(row["data"])
    match row["kind"]:
        case "attempt_finished":
            state = model.State(data["state"])
        case "task_landed" | "task_approved":
            state = model.State.DONE
        case kind:
            state = model.State(kind.removeprefix("task_"))
    if state not in model.TERMINAL:
        return None
    reason = str(data.get("reason", row["reason"]))
    return record(model.Notice, row, event=row["id"], state=state, reason=reason)


def entry(row: Row) -> candidate_records.Entry:
    return record(
        candidate_records.Entry, row, "work", tasks=files(row["tasks"]), needs=files(row["needs"])
    )


def verdict(row: Row) -> candidate_records.CheckVerdict:
    return record(candidate_records.CheckVerdict, row, "combination", "commands")


def conflict(row: Row) -> candidate_records.MergeConflict:
    return record(candidate_records.MergeConflict, row, after=json.loads(row["others"]))


def landing(row: Row) -> candidate_records.Landing:
    return record(candidate_records.Landing, row, "entries", "commits")
