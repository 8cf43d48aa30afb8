"""Polling: what there is for a member now, claimed before it is told. It never waits."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from weft.model import Held, Worker
from weft.store import Store
from weft.store.admission import admit
from weft.store.leases import release
from weft.store.members import (
    confirm_notices,
    give_signs,
    list_held,
    list_offers,
    take_notices,
)
from weft.store.messages import confirm_to_member, list_to_member
from weft.store.store import writes
from weft.store.tasks import get_task
from weft.store.tokens import refuse_revoked
from weft.store.waiting_members import may_have_work
from weft.swarm.access import as_claimed, get_acting, sender_name
from weft.swarm.acknowledgements import (
    confirmed_messages,
    confirmed_notices,
    of_messages,
    of_notices,
)
from weft.swarm.identity import Identity
from weft.swarm.swarm_records import Offer, Trigger


@writes
def poll(
    store: Store,
    who: Identity,
    member: str,
    *,
    ack: str | None = None,
    holding: Collection[int] | None = None,
    now: float,
) -> Trigger | None:
    """The next thing for a member: words and ends of tasks, then an offer, then a task.

    `ack` confirms what the last poll told; until then it is told again. `holding` are the fences
    the member knows of: what it holds besides was claimed for it by a poll whose answer got lost,
    and is told again before anything new.
    """
    refuse_revoked(store, who.token, now=now)
    worker = get_acting(store, who, member, now=now)
    words, ends = confirmed_messages(ack), confirmed_notices(ack)
    give_signs(store, [member], now=now)
    held = list_held(store, member).get(member, [])
    tasks = [one.task for one in held if one.current]
    if words is not None:
        confirm_to_member(store, member, words, holding=tasks, now=now)
    if ends is not None:
        confirm_notices(store, member, ends)
    return (
        _lost(store, held, holding)
        or _messages(store, member, tasks)
        or _notices(store, worker)
        or (_work(store, worker, now=now) if worker.capacity.available else None)
    )


def _lost(store: Store, held: Sequence[Held], known: Collection[int] | None) -> Trigger | None:
    if known is None:
        return None
    lost = [one for one in held if one.current and one.fence not in known]
    return Trigger(kind="task", task=as_claimed(store, lost[0])) if lost else None


def _messages(store: Store, member: str, holding: Collection[int]) -> Trigger | None:
    found = tuple(list_to_member(store, member, holding=holding))
    return Trigger(kind="messages", messages=found, ack=of_messages(found)) if found else None


def _notices(store: Store, worker: Worker) -> Trigger | None:
    found = tuple(
        take_notices(
            store,
            worker.id,
            sender=sender_name(worker.id),
            is_lead=worker.is_lead,
            tenant=worker.tenant,
        )
    )
    return Trigger(kind="finished", finished=found, ack=of_notices(found)) if found else None


def _work(store: Store, worker: Worker, *, now: float) -> Trigger | None:
    """An offer, told while there is room to accept it; or the best task it can take."""
    for task in list_offers(store, worker.id).get(worker.id, []):
        about = get_task(store, task)
        if about.until is None or about.until > now:
            offer = Offer(task=task, name=about.name, text=about.text, until=about.until)
            return Trigger(kind="offer", offer=offer)
    grants = admit(store, worker.id, now=now) if _may_have_work(store, worker, now) else []
    if not grants:
        return None
    held = list_held(store, worker.id)[worker.id]
    [mine] = [one for one in held if one.fence == grants[0].fence]
    return Trigger(kind="task", task=as_claimed(store, mine))


def _may_have_work(store: Store, worker: Worker, now: float) -> bool:
    return may_have_work(
        store, worker.id, tenant=worker.tenant, capabilities=worker.capabilities, now=now
    )


def take_back(store: Store, trigger: Trigger, *, now: float) -> None:
    """Nobody was there to be told: what was claimed is ready again, for whomever it was meant."""
    if trigger.task is not None:
        release(store, trigger.task.fence, now=now, reason="nobody was there to take it")
