"""Work, offers and messages for waiting members: read once for all of them, claiming nothing."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from msgspec import Struct

from weft.store import row_records
from weft.store.database import Transaction, encode_keys
from weft.store.store import reads


class Head(Struct, frozen=True, kw_only=True):
    """A kind of task that is ready for members."""

    agent: str | None
    pinned: str | None


class Standing(Struct, frozen=True, kw_only=True):
    """The facts about a member that decide which work it waits for."""

    capabilities: frozenset[str]
    available: int  # free slots
    is_lead: bool


class Stirrings(Struct, frozen=True, kw_only=True):
    heads: frozenset[Head]
    offered: frozenset[str]  # members with an offer
    addressed: frozenset[str]  # members with messages
    ended: frozenset[str | None]  # senders of tasks that have ended
    last_event: int  # the event to continue from
    due: float | None  # time of the next parked task, offer or preference
    standings: Mapping[str, Standing]  # of the fresh members, or of all if there is news
    senders: frozenset[str]  # fresh members that sent tasks before, and are told of their ends


@reads
def look_for_members(
    tx: Transaction, *, fresh: Mapping[str, str], waiting: Collection[str], after: int | None
) -> Stirrings:
    """Read the news for waiting members; `after` is the last event read, None: all.

    Members are read only if they have just come (`fresh`, with the name under which each sends
    tasks), or there is news.
    """
    heads = frozenset(row_records.record(Head, row) for row in tx.all("swarm_heads"))
    offered = frozenset(row["offered_to"] for row in tx.all("offers_of", worker=None))
    addressed = frozenset(row["id"] for row in tx.all("members_addressed"))
    newest = int(tx.value("last_event"))
    ended: frozenset[str | None] = frozenset()
    if after is not None and newest > after:
        ended = frozenset(row["created_by"] for row in tx.all("ends_after", after=after))
    stirred = heads or ended or offered & set(waiting) or addressed & set(waiting)
    wanted = waiting if stirred else fresh
    return Stirrings(
        heads=heads,
        offered=offered,
        addressed=addressed,
        ended=ended,
        last_event=newest,
        due=tx.value("next_due"),
        standings=_standings(tx, wanted) if wanted else {},
        senders=_senders(tx, fresh) if fresh else frozenset(),
    )


def _senders(tx: Transaction, fresh: Mapping[str, str]) -> frozenset[str]:
    rows = tx.all("senders_among", senders=encode_keys(fresh.values()))
    senders = {row["sender"] for row in rows}
    return frozenset(member for member, sender in fresh.items() if sender in senders)


def _standings(tx: Transaction, members: Collection[str]) -> dict[str, Standing]:
    used = {row["worker"]: int(row["used"]) for row in tx.all("slots_used")}
    return {
        row["id"]: Standing(
            capabilities=row_records.names(row["agents"]),
            available=max(0, (row["capacity"] or 0) - used.get(row["id"], 0)),
            is_lead=bool(row["is_lead"]),
        )
        for row in tx.all("members_waiting", workers=encode_keys(members))
    }


@reads
def may_have_work(
    tx: Transaction, member: str, *, capabilities: Collection[str], now: float
) -> bool:
    """Tell whether an admission could grant this member a task now. The limits and leases of
    other members are not read: most polls end here."""
    ready = tx.all("ready_for_member", member=member)
    if any(row["agent"] is None or row["agent"] in capabilities for row in ready):
        return True
    due = tx.value("next_due")
    return due is not None and due <= now
