"""What a member does with a task: claim, report, end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from weft.model import State
from weft.operations.swarm.identity import Identity
from weft.operations.swarm.records import Claimed, Heard, Result
from weft.store import Store


def claim(store: Store, who: Identity, member: str, task: int, *, now: float) -> Claimed:
    raise NotImplementedError


def accept(store: Store, who: Identity, member: str, task: int, *, now: float) -> Claimed:
    raise NotImplementedError


def reject(
    store: Store, who: Identity, member: str, task: int, *, reason: str = "", now: float
) -> None:
    raise NotImplementedError


def release(store: Store, who: Identity, fence: int, *, reason: str = "", now: float) -> bool:
    raise NotImplementedError


def progress(
    store: Store,
    who: Identity,
    fence: int,
    *,
    text: str = "",
    data: Mapping[str, Any] | None = None,
    ack: str | None = None,
    now: float,
) -> Heard:
    raise NotImplementedError


def finish(store: Store, who: Identity, fence: int, result: Result, *, now: float) -> State:
    raise NotImplementedError


def claim_files(
    store: Store, who: Identity, fence: int, files: Sequence[str], *, now: float
) -> dict[str, int]:
    raise NotImplementedError


def cancel(store: Store, who: Identity, task: int, *, reason: str = "", now: float) -> bool:
    raise NotImplementedError
