"""Rows into records."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from weft import model
from weft.admission import capacity
from weft.config import GateSettings, RunSettings, WorkspaceSettings
from weft.store.database import Row, encode, storable

_REQUEST: Final = msgspec.json.Decoder(model.TaskRequest)


@functools.lru_cache(maxsize=4096)
def demand(text: str) -> Mapping[str, int]:
    return MappingProxyType(json.loads(text))


@functools.lru_cache(maxsize=4096)
def placed_demand(text: str, worker: str, host: str) -> tuple[Mapping[str, int], str]:
    """A demand as one worker would take it, and that as canonical JSON."""
    resolved = capacity.resolve(demand(text), worker, host)
    return MappingProxyType(resolved), encode(resolved)


@functools.lru_cache(maxsize=4096)
def files(text: str) -> tuple[str, ...]:
    return tuple(json.loads(text))


@functools.lru_cache(maxsize=256)
def agents(text: str) -> Mapping[str, Mapping[str, object]]:
    """What a worker said of its agents: by name, the file and its limit."""
    return MappingProxyType(json.loads(text))


@functools.lru_cache(maxsize=256)
def names(text: str) -> frozenset[str]:
    """The keys of a JSON object."""
    return frozenset(json.loads(text))


def run(row: Row) -> model.Run:
    return model.Run(
        id=row["id"],
        repo=row["repo"],
        tenant=row["tenant"],
        state=row["state"],
        submitted=row["submitted"],
        plan=row["plan"],
        base=row["base"],
        revision=row["revision"],
        check=gate_settings(row["gate"]).run,
        blocked=row["blocked"],
        target=row["target"],
        target_state=model.TargetState(row["target_state"]),
        target_text=row["target_text"],
        alternates=files(row["alternates"]),
    )


def run_settings(row: Row) -> RunSettings:
    return RunSettings(
        gate=gate_settings(row["gate"]),
        workspace=msgspec.json.decode(row["workspace"], type=WorkspaceSettings),
        agents=json.loads(row["agents"]),
        revision=row["revision"],
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
    return model.Task(
        id=row["id"],
        run=row["run"],
        name=row["name"],
        repo=row["repo"],
        tenant=row["tenant"],
        text=row["text"],
        request=request(row),
        attached=json.loads(row["attached"]),
        state=model.State(row["state"]),
        since=row["since"],
        reason=row["reason"],
        until=row["until"],
        klass=model.Class(row["class"]),
        priority=model.Priority(row["priority"]),
        agent=row["agent"],
        stage=row["stage"],
        demand=demand(row["demand"]),
        files=files(row["files"]),
        path_seconds=row["path_seconds"],
        submitted=row["submitted"],
        story=row["story"],
        gang=row["gang"],
        pinned=row["pinned"],
        offered_to=row["offered_to"],
        result=row["result"],
        pin_until=row["pin_until"],
        created_by=row["created_by"],
    )


def summary(row: Row) -> model.Summary:
    return model.Summary(
        id=row["id"],
        name=row["name"],
        run=row["run"],
        tenant=row["tenant"],
        state=model.State(row["state"]),
        reason=row["reason"],
        since=row["since"],
        agent=row["agent"],
        stage=row["stage"],
        klass=model.Class(row["klass"]),
        priority=model.Priority(row["priority"]),
        worker=row["worker"],
        created_by=row["created_by"],
        submitted=row["submitted"],
    )


def attempt(row: Row) -> model.Attempt:
    return model.Attempt(
        task=row["task"],
        number=row["number"],
        fence=row["fence"],
        worker=row["worker"],
        agent=row["agent"],
        stage=row["stage"],
        started=row["started"],
        ended=row["ended"],
        outcome=row["outcome"],
        candidate=row["candidate"],
        base=row["base"],
        session=row["session"],
        tokens=row["tokens"],
        micro_usd=row["micro_usd"],
    )


def lease(row: Row) -> model.Lease:
    return model.Lease(
        fence=row["fence"],
        kind=row["kind"],
        holder=row["holder"],
        task=row["task"],
        attempt=row["attempt"],
        worker=row["worker"],
        host=row["host"],
        state=model.LeaseState(row["state"]),
        granted=row["granted"],
        deadline=row["deadline"],
        released=row["released"],
        ended=row["ended"],
    )


def event(row: Row) -> model.Event:
    return model.Event(
        id=row["id"],
        at=row["at"],
        kind=row["kind"],
        run=row["run"],
        task=row["task"],
        data=json.loads(row["data"]),
    )


def message(row: Row) -> model.Message:
    return model.Message(
        id=row["id"],
        to_task=row["to_task"],
        to_worker=row["to_worker"],
        sender=row["sender"],
        text=row["text"],
        at=row["at"],
    )


def find_notice(row: Row) -> model.Notice | None:
    """An event as the end of its task, if it is one."""
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
    return model.Entry(
        id=row["id"],
        run=row["run"],
        state=row["state"],
        looked_at=bool(row["looked_at"]),
        base=row["base"],
        story=row["story"],
        tasks=tuple(int(one) for one in json.loads(row["tasks"])),
        work=tuple((commit, base) for commit, base in json.loads(row["work"])),
        needs=frozenset(json.loads(row["needs"])),
        alone=bool(row["alone"]),
    )


def verdict(row: Row) -> model.CheckVerdict:
    return model.CheckVerdict(
        base=row["base"],
        combination=tuple(json.loads(row["combination"])),
        purpose=row["purpose"],
        tree=row["tree"],
        check_id=row["check_id"],
        commands=tuple(tuple(one) for one in json.loads(row["commands"])),
        passed=bool(row["passed"]),
        seconds=row["seconds"],
        number=row["number"],
    )


def conflict(row: Row) -> model.MergeConflict:
    return model.MergeConflict(
        base=row["base"],
        entry=row["entry"],
        others=tuple(json.loads(row["others"])),
        report=row["report"],
    )


def landing(row: Row) -> model.Landing:
    return model.Landing(
        run=row["run"],
        sequence=row["sequence"],
        old=row["old"],
        new=row["new"],
        tree=row["tree"],
        entries=tuple(json.loads(row["entries"])),
        commits=tuple(json.loads(row["commits"])),
        revision=row["revision"],
        every_commit=bool(row["every_commit"]),
        state=row["state"],
    )
