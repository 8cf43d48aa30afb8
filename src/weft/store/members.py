"""Members of the swarm: workers without a process of weft's, known by the token they joined with.

They are freed after silence. Their tasks are admitted like all tasks, by the capabilities that
they stated when they joined.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from weft import bounds
from weft.errors import InputError
from weft.model import Held, NewMember, Notice
from weft.store import leases, row_records
from weft.store.database import Transaction, encode_keys, storable
from weft.store.limit_table import own_limit
from weft.store.store import reads, writes
from weft.store.workers import agree_on_times, depart

_SCANNED: Final = 200  # events read at once
_TOLD: Final = 50  # notices in an answer


@writes
def join(tx: Transaction, member: NewMember, *, now: float) -> None:
    """Add a member, or bring it back, with its slots. It keeps the tasks it holds."""
    if not 1 <= member.slots <= bounds.TASKS:
        raise InputError(f"A member has from 1 to {bounds.TASKS} slots, not {member.slots}.")
    agree_on_times(tx, member.id)
    tx.run(
        "join_swarm",
        member,
        agents=encode_keys(member.capabilities),
        role=storable(member.role),
        noticed=tx.value("last_event"),
        now=now,
    )
    own = f"worker {member.id}"
    own_limit(tx, f"worker:{member.id}", member.slots, owner=own, now=now)
    tx.event("worker_registered", now=now, worker=member.id, slots=member.slots)
    tx.wake()


@writes
def part(tx: Transaction, member: str, *, now: float) -> None:
    """Remove a member; the tasks it holds are released at once."""
    for row in tx.all("held_by_members", worker=member):
        leases.release(tx, row["fence"], now=now)
    depart(tx, member, now=now)


@writes
def hand_back(tx: Transaction, fence: int, *, reason: str, now: float) -> bool:
    """Release a task of a member for all members, even if it was meant for this member.

    Return False if it was released before.
    """
    lease = tx.one("lease", fence=fence)
    if lease is not None and lease["state"] != "released":
        tx.run("unpin", id=lease["task"], worker=lease["worker"])
    return leases.release(tx, fence, now=now, reason=reason or "handed_back")


@reads
def find_named(tx: Transaction, token: str, name: str) -> str | None:
    """Return the member that joined with a token under a name, even if it has left since."""
    row = tx.one("member_named", token=token, name=name)
    return None if row is None else str(row["id"])


@reads
def list_of_token(tx: Transaction, token: str) -> list[str]:
    return [row["id"] for row in tx.all("members_of", token=token)]


@reads
def find_own(tx: Transaction, token: str, named: str | None) -> list[str]:
    """Return the present members that a token can mean, at most two: the member of this id, or
    those of this name, or any. The cost does not grow with the token's members."""
    if named is None:
        return [row["id"] for row in tx.all("some_of_token", token=token)]
    ids = [row["id"] for row in tx.all("own_members_named", token=token, named=named)]
    return [named] if named in ids else ids


@reads
def list_called(tx: Transaction, name: str) -> list[str]:
    """Return the member of this id, or else the present members of this name."""
    ids = [row["id"] for row in tx.all("members_called", name=name)]
    return [name] if name in ids else ids


@writes
def give_signs(tx: Transaction, members: Iterable[str], *, now: float) -> None:
    """Record signs of life of several members, and renew their leases."""
    ids = sorted(members)
    tx.many("heartbeat", [{"id": member, "now": now} for member in ids])
    tx.run("renew_of", workers=encode_keys(ids), deadline=now + tx.tuning.lease)


@reads
def list_absent(tx: Transaction, members: Iterable[str]) -> list[str]:
    """List those of these members that have left, or were silent for too long."""
    return [row["id"] for row in tx.all("absent", workers=encode_keys(members))]


@reads
def list_held(tx: Transaction, member: str | None = None) -> dict[str, list[Held]]:
    """Map each member, or this member, to the tasks it holds."""
    held: dict[str, list[Held]] = {}
    for row in tx.all("held_by_members", worker=member):
        held.setdefault(row["worker"], []).append(
            row_records.record(Held, row, current=row["ended"] is None)
        )
    return held


@reads
def list_offers(tx: Transaction, member: str | None = None) -> dict[str, list[int]]:
    """Map each member, or this member, to its unanswered offers."""
    offers: dict[str, list[int]] = {}
    for row in tx.all("offers_of", worker=member):
        offers.setdefault(row["offered_to"], []).append(row["id"])
    return offers


@writes
def take_notices(tx: Transaction, member: str, *, sender: str, is_lead: bool) -> list[Notice]:
    """List the ends of tasks that a member has not confirmed.

    Ends that do not concern it are passed over for good, so that they are read only once.
    """
    while True:
        after = tx.value("noticed", worker=member)
        rows = tx.all(
            "ends_since",
            after=after,
            sender=sender,
            lead=is_lead,
            worker=member,
            most=_SCANNED,
        )
        notices = [notice for row in rows if (notice := row_records.find_notice(row)) is not None]
        if notices:
            return notices[:_TOLD]
        full = len(rows) == _SCANNED
        tx.run("set_noticed", worker=member, event=rows[-1]["id"] if full else _newest(tx))
        if not full:
            return []


def _newest(tx: Transaction) -> int:
    return int(tx.value("last_event"))


@writes
def confirm_notices(tx: Transaction, member: str, event: int) -> None:
    """Record that a member knows all ends up to an event, at most the newest."""
    tx.run("set_noticed", worker=member, event=min(event, _newest(tx)))
