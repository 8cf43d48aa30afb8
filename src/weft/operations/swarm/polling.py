"""Polling: what there is for a member, claimed before it is told."""

from __future__ import annotations

from collections.abc import Collection

from weft.operations.swarm.identity import Identity
from weft.operations.swarm.records import Trigger
from weft.store import Store


def poll(
    store: Store,
    who: Identity,
    member: str,
    *,
    ack: str | None = None,
    holding: Collection[int] | None = None,
    now: float,
) -> Trigger | None:
    raise NotImplementedError
