"""Limits as somebody may see them.

A tenant sees what everybody shares, for that may be what its tasks wait for, and what is its own;
not whose files, hosts and workers there are besides.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from weft.model import Limit
from weft.store import Store, limit_table
from weft.store.runs import list_runs
from weft.store.store import reads
from weft.swarm.identity import READ, Identity, need
from weft.swarm.membership import list_members

_OF_RUNS: Final = ("run", "stage", "gate")  # `run:<id>/agents`
_SHARED: Final = ("agent", "provider")


@reads
def list_limits(store: Store, who: Identity, *, now: float) -> list[Limit]:
    """Every limit with its use that this identity may see."""
    need(who, READ)
    found = limit_table.list_limits(store, now=now)
    if who.tenant is None:
        return found
    runs = {run.id for run in list_runs(store) if run.tenant == who.tenant}
    members = {member.id for member in list_members(store, who, now=now)}
    return [
        replace(one, owner=_owner(one)) for one in found if _is_seen(one.resource, runs, members)
    ]


def _is_seen(resource: str, runs: set[str], members: set[str]) -> bool:
    kind, colon, rest = resource.partition(":")
    if kind in _OF_RUNS and colon:
        return rest.partition("/")[0] in runs
    return not colon or kind in _SHARED or (kind == "worker" and rest in members)


def _owner(limit: Limit) -> str | None:
    """Who sets it; of an agent file, not where that is."""
    of_file = limit.owner is not None and limit.resource.startswith("agent:")
    return "its agent file" if of_file else limit.owner
