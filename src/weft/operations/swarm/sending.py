"""Sending work into the swarm."""

from __future__ import annotations

from weft.operations.swarm.identity import Identity
from weft.operations.swarm.records import NewWork, Sent
from weft.store import Store


def send(store: Store, who: Identity, work: NewWork, *, now: float) -> Sent:
    raise NotImplementedError
