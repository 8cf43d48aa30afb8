"""Members: they join, give signs of life and leave."""

from __future__ import annotations

from weft.operations.swarm.identity import Identity
from weft.operations.swarm.records import Member
from weft.store import Store


def join(
    store: Store,
    who: Identity,
    *,
    name: str,
    id: str | None = None,
    is_lead: bool = False,
    role: str = "",
    capabilities: tuple[str, ...] = (),
    max_tasks: int | None = None,
    now: float,
) -> Member:
    raise NotImplementedError


def get_member(store: Store, who: Identity, id: str, *, now: float) -> Member:
    raise NotImplementedError


def find_own(store: Store, who: Identity, *, now: float) -> list[Member]:
    """The members that joined with this token: which one a request without a name means."""
    raise NotImplementedError


def list_members(store: Store, who: Identity, *, now: float) -> list[Member]:
    raise NotImplementedError


def ping(store: Store, who: Identity, id: str, *, now: float) -> Member:
    raise NotImplementedError


def close(store: Store, who: Identity, id: str, *, now: float) -> None:
    raise NotImplementedError
