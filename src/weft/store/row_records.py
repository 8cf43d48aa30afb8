"""Rows into records."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, TypeVar

import msgspec

from weft import model
from weft.admission import capacity
from weft.config import GateSettings, RunSettings, WorkspaceSettings
from weft.store.database import Row, encode, storable

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


def record(kind: type[T], row: Row, **parsed: Any) -> T:
    """Build a record from the columns named like its fields; `parsed` has the other fields."""
    return msgspec.convert({**row, **parsed}, kind)


summary = functools.partial(record, model.Summary)
attempt = functools.partial(record, model.Attempt)
lease = functools.partial(record, model.Lease)
message = functools.partial(record, model.Message)


def run(row: Row) -> model.Run:
    check = gate_settings(row["gate"]).run
    return record(model.Run, row, check=check, alternates=files(row["alternates"]))


def run_settings(row: Row) -> RunSettings:
    return record(
        RunSettings,
        row,
        gate=gate_settings(row["gate"]),
        workspace=msgspec.json.decode(row["workspace"], type=WorkspaceSettings),
        agents=json.loads(row["agents"]),
    )


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


def task(row: Row) -> model.Task:
    return record(
        model.Task,
        row,
        request=request(row),
        attached=json.loads(row["attached"]),
        klass=row["class"],
        demand=demand(row["demand"]),
        files=files(row["files"]),
    )


def event(row: Row) -> model.Event:
    return record(model.Event, row, data=json.loads(row["data"]))


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
    return model.Notice(
        event=row["id"],
        task=row["task"],
        name=row["name"],
        state=state,
        reason=str(data.get("reason", row["reason"])),
        result=row["result"],
        at=row["at"],
    )


def entry(row: Row) -> model.Entry:
    return record(
        model.Entry,
        row,
        looked_at=bool(row["looked_at"]),
        tasks=[int(number) for number in json.loads(row["tasks"])],
        work=json.loads(row["work"]),
        needs=list(json.loads(row["needs"])),
        alone=bool(row["alone"]),
    )


def verdict(row: Row) -> model.CheckVerdict:
    return record(
        model.CheckVerdict,
        row,
        combination=json.loads(row["combination"]),
        commands=json.loads(row["commands"]),
        passed=bool(row["passed"]),
    )


def conflict(row: Row) -> model.MergeConflict:
    return record(model.MergeConflict, row, after=json.loads(row["others"]))


def landing(row: Row) -> model.Landing:
    return record(
        model.Landing,
        row,
        entries=json.loads(row["entries"]),
        commits=json.loads(row["commits"]),
        every_commit=bool(row["every_commit"]),
    )
