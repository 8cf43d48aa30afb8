"""Why a task is where it is, for whoever may see it."""

from __future__ import annotations

from weft.runs.explanation import Explanation, why
from weft.store import Store
from weft.store.store import reads
from weft.swarm import visible_tasks
from weft.swarm.identity import Identity


@reads
def explain(store: Store, who: Identity, task: int, *, now: float) -> Explanation:
    visible_tasks.get_task(store, who, task)
    return why(store, str(task), now=now, tenant=who.tenant)
