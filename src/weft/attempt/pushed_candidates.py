"""Candidates that worker hosts pushed: home keeps them as it keeps the work of its own attempts.

A candidate whose attempt has ended becomes the branch of that attempt; work that no attempt
recorded goes to the archive. Then its reference below `refs/weft/candidates/` is deleted. Each
batch is one transaction of git, which creates before it deletes: after a crash the next sweep
deletes the rest.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Final

from weft import git
from weft.attempt.start import AD_HOC
from weft.errors import NotFound, StaleFence
from weft.git import RefMoved, Update
from weft.git.http_backend import CANDIDATES, CandidateName, read_candidate_name
from weft.model import LeaseState
from weft.project.site import Site
from weft.store.leases import get_lease
from weft.store.tasks import get_task, list_attempts
from weft.workspace.names import archive_ref, branch_ref

log = logging.getLogger(__name__)

_BATCH: Final = 100
_ANSWERED: Final = 60.0
"""Seconds after the end of a lease in which its host may repeat a request: the answer was lost."""


def keep_pushed(site: Site, *, now: float) -> int:
    """Keep the candidates of ended leases, delete their references, and return their number."""
    pushed = git.list_refs(site.common, CANDIDATES)
    moves = [
        move
        for ref, commit in pushed.items()
        if (name := read_candidate_name(ref)) is not None
        and (move := _plan_move(site, name, commit, now)) is not None
    ][:_BATCH]
    if not moves:
        return 0
    kept = {name for _, kept, commit in moves for name in (kept, archive_ref(kept, commit))}
    known = git.list_refs(site.common, *sorted(kept))
    updates = list(_list_updates(moves, known))
    try:
        git.update_refs(site.common, updates, why="weft: pushed")
    except RefMoved as error:  # another process of this host was faster
        log.info("the pushed candidates wait for the next sweep: %s", error)
        return 0
    return len(moves)


Move = tuple[str, str, str]
"""The reference of a candidate, the reference that keeps its commit, and the commit."""


def _plan_move(site: Site, name: CandidateName, commit: str, now: float) -> Move | None:
    """Return where a candidate goes; None while its lease is open, or if the store forgot it."""
    try:
        lease = get_lease(site.store, name.fence)
        task = get_task(site.store, name.task)
    except (NotFound, StaleFence):
        return None
    ended = lease.released if lease.state is LeaseState.RELEASED else None
    if ended is None or now - ended < _ANSWERED or lease.task != name.task:
        return None
    recorded = {
        attempt.candidate
        for attempt in list_attempts(site.store, task.id)
        if attempt.number == name.attempt
    }
    branch = branch_ref(task.run or AD_HOC, task.name, name.attempt)
    return name.ref, branch if commit in recorded else archive_ref(branch, commit), commit


def _list_updates(moves: list[Move], known: dict[str, str]) -> Iterator[Update]:
    for _, kept, commit in moves:
        if known.get(kept) not in (None, commit):  # the branch has other work
            kept = archive_ref(kept, commit)
        if kept not in known:
            known[kept] = commit
            yield Update(ref=kept, old=None, new=commit)
    yield from (Update(ref=ref, old=commit, new=None) for ref, _, commit in moves)
