"""Why a task is where it is, for whoever may see it."""

from __future__ import annotations

from weft.operations.looking import Why, why
from weft.operations.swarm import looking
from weft.operations.swarm.identity import Identity
from weft.store import Store


def explain(store: Store, who: Identity, task: int, *, now: float) -> Why:
    looking.get_task(store, who, task)
    return why(store, str(task), now=now, tenant=who.tenant)
