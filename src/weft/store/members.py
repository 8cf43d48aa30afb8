"""Members of the swarm: workers without a process of weft's, known by the token they joined with.

They are freed after silence. Their tasks are admitted like all tasks, by the capabilities that
they stated when they joined. Work can also be offered or assigned to a member; an offer holds no
capacity.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from msgspec import Struct

from weft import bounds
from weft.errors import AtCapacity, InputError, NotFound, Refused
from weft.model import Capacity, Grant, Held, NewMember, Notice, State
from weft.store import leases, ready, row_records
from weft.store.admission import admit_task
from weft.store.database import Row, Transaction, encode_keys, storable
from weft.store.ledger import Ledger
from weft.store.limit_table import own_limit
from weft.store.row_records import get_task_row
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


@writes
def offer(tx: Transaction, task: int, worker: str, *, now: float) -> None:
    """Offer a ready task to a worker; the offer ends if the worker stays silent or leaves."""
    row = get_task_row(tx, task)
    if row["state"] != State.READY:
        raise Refused(f"Task {task} is {row['state']}; only a ready task can be offered.")
    Ledger(tx, now).worker(worker)
    ready.leave(tx, row, State.OFFERED, now=now, until=now + tx.tuning.offer, offered_to=worker)
    tx.event("task_offered", row, now=now, worker=worker)


@writes
def accept(tx: Transaction, task: int, worker: str, *, now: float) -> list[Grant]:
    """Accept an offer and start the task, if it is admissible now.

    Empty means that it cannot start at this moment: it is ready for all workers again.
    """
    row = _offered(tx, task, worker)
    ready.requeue(tx, row["id"], now=now)
    return admit_task(tx, worker, task, now=now)


@writes
def reject(tx: Transaction, task: int, worker: str, *, now: float, reason: str = "") -> None:
    row = _offered(tx, task, worker)
    ready.requeue(tx, row["id"], now=now, reason=reason)
    tx.event("offer_rejected", row, now=now, worker=worker, reason=reason)


def _offered(tx: Transaction, task: int, worker: str) -> Row:
    row = get_task_row(tx, task)
    if row["state"] != State.OFFERED or row["offered_to"] != worker:
        raise Refused(f"Task {task} is not offered to {worker} (any more).")
    return row


def withdraw_all(tx: Transaction, worker: str, *, now: float) -> None:
    """End the offers to a departed worker and the preferences for it."""
    for row in tx.all("offers_to", worker=worker):
        ready.requeue(tx, row["id"], now=now)
        tx.event("offer_withdrawn", row, now=now, worker=worker)
    for row in tx.all("preferences_for", worker=worker):
        ready.end_preference(tx, row, now=now)


@reads
def find_room(tx: Transaction, worker: str, *, now: float) -> Capacity:
    """Return a worker's slots; tasks assigned to it that have not started count as used."""
    ledger = Ledger(tx, now)
    ledger.worker(worker)
    slots = ledger.nominal.get(f"worker:{worker}")
    if slots is None:
        raise NotFound(f"Worker {worker} has no slots; register it first.")
    waiting = tx.value("pinned_waiting", worker=worker)
    return Capacity(current=ledger.used.get(f"worker:{worker}", 0) + waiting, max=slots)


@writes
def assign(tx: Transaction, task: int, worker: str, *, now: float, or_queue: bool = False) -> None:
    """Assign a task to a worker for good. Refuse at capacity unless it may queue."""
    row = get_task_row(tx, task)
    if row["state"] not in (State.READY, State.WAITING, State.PARKED):
        raise Refused(f"Task {task} is {row['state']} and cannot be assigned.")
    room = find_room(tx, worker, now=now)
    if not room.available and not or_queue and row["pinned"] != worker:
        raise AtCapacity(f"{worker} is at capacity ({room.current}/{room.max}).")
    together = [row] if row["gang"] is None else tx.all("gang_members", gang=row["gang"])
    for member in together:  # a gang goes to a single worker
        tx.run("set_pin", id=member["id"], pinned=worker, until=None)
        if member["state"] == State.READY:
            ready.requeue(tx, member["id"], now=now)
    tx.event("task_assigned", row, now=now, worker=worker)


class ReadyKind(Struct, frozen=True, kw_only=True):
    """A kind of task that is ready for members."""

    agent: str | None
    pinned: str | None


class MemberState(Struct, frozen=True, kw_only=True):
    """The facts about a member that decide which work it waits for."""

    capabilities: frozenset[str]
    available: int  # free slots
    is_lead: bool


class MemberNews(Struct, frozen=True, kw_only=True):
    heads: frozenset[ReadyKind]
    offered: frozenset[str]  # members with an offer
    addressed: frozenset[str]  # members with messages
    ended: frozenset[str | None]  # senders of tasks that have ended
    last_event: int  # the event to continue from
    due: float | None  # time of the next parked task, offer or preference
    standings: Mapping[str, MemberState]  # of the fresh members, or of all if there is news
    senders: frozenset[str]  # fresh members that sent tasks before, and are told of their ends


@reads
def look_for_members(
    tx: Transaction, *, fresh: Mapping[str, str], waiting: Collection[str], after: int | None
) -> MemberNews:
    """Read the news for waiting members; `after` is the last event read, None: all.

    Members are read only if they have just come (`fresh`, with the name under which each sends
    tasks), or there is news.
    """
    heads = frozenset(row_records.record(ReadyKind, row) for row in tx.all("swarm_heads"))
    offered = frozenset(row["offered_to"] for row in tx.all("offers_of", worker=None))
    addressed = frozenset(row["id"] for row in tx.all("members_addressed"))
    newest = int(tx.value("last_event"))
    ended: frozenset[str | None] = frozenset()
    if after is not None and newest > after:
        ended = frozenset(row["created_by"] for row in tx.all("ends_after", after=after))
    stirred = heads or ended or offered & set(waiting) or addressed & set(waiting)
    wanted = waiting if stirred else fresh
    return MemberNews(
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


def _standings(tx: Transaction, members: Collection[str]) -> dict[str, MemberState]:
    used = {row["worker"]: int(row["used"]) for row in tx.all("slots_used")}
    return {
        row["id"]: MemberState(
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
