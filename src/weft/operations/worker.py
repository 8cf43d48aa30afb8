"""`weft worker`: where its tasks come from."""

from __future__ import annotations

import time
from collections.abc import Sequence

from weft.model import Grant
from weft.operations.do import repository
from weft.operations.project import Project
from weft.policy.capacity import is_consumable
from weft.store import Store
from weft.store.admission import admit
from weft.store.leases import release
from weft.store.tasks import get_task


class Source:
    """The store, as long as what it gives belongs to the repository this worker is in."""

    def __init__(self, project: Project, store: Store) -> None:
        self.foreign = ""  # why nothing more is taken
        self._store = store
        self._repository = repository(project)

    def take(self, worker: str) -> Sequence[Grant]:
        if self.foreign:
            return ()
        grants = admit(self._store, worker, now=time.time())
        others = [one for one in grants if self._is_foreign(one)]
        if not others:
            return grants
        for one in grants:
            nothing = {name: 0 for name in one.demand if is_consumable(name)}
            release(
                self._store, one.fence, now=time.time(), reason="wrong repository", spent=nothing
            )
        self.foreign = (
            f"Task {others[0].task} of this store belongs to another repository, where this worker "
            "cannot work; give each repository a store of its own."
        )
        return ()

    def _is_foreign(self, grant: Grant) -> bool:
        return get_task(self._store, grant.task).repo != self._repository
