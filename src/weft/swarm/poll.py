"""A poll: the next work or news of a member, claimed before it is returned. A poll never waits."""

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
from weft.swarm.access import describe_claimed, get_acting, sender_name
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
    """Return a member's next messages or ended tasks, else an offer, else a task claimed for it.

    `ack` confirms the last answer; until then its messages come again. `holding` are the fences
    that the member knows. A task it holds besides was claimed by a poll whose answer got lost, and
    comes again first.
    """
    refuse_revoked(store, who.token, now=now)
    worker = get_acting(store, who, member, now=now)
    messages, ends = confirmed_messages(ack), confirmed_notices(ack)
    give_signs(store, [member], now=now)
    held = list_held(store, member).get(member, [])
    tasks = [lease.task for lease in held if lease.current]
    if messages is not None:
        confirm_to_member(store, member, messages, holding=tasks, now=now)
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
    lost = [lease for lease in held if lease.current and lease.fence not in known]
    return Trigger(kind="task", task=describe_claimed(store, lost[0])) if lost else None


def _messages(store: Store, member: str, holding: Collection[int]) -> Trigger | None:
    messages = tuple(list_to_member(store, member, holding=holding))
    if not messages:
        return None
    return Trigger(kind="messages", messages=messages, ack=of_messages(messages))


def _notices(store: Store, worker: Worker) -> Trigger | None:
    ends = tuple(
        take_notices(
            store,
            worker.id,
            sender=sender_name(worker.id),
            is_lead=worker.is_lead,
        )
    )
    return Trigger(kind="finished", finished=ends, ack=of_notices(ends)) if ends else None


def _work(store: Store, worker: Worker, *, now: float) -> Trigger | None:
    """Return an offer, while there is room to accept it, or the best task the member can take."""
    for task in list_offers(store, worker.id).get(worker.id, []):
        about = get_task(store, task)
        if about.until is None or about.until > now:
            offer = Offer(task=task, name=about.name, text=about.text, until=about.until)
            return Trigger(kind="offer", offer=offer)
    grants = admit(store, worker.id, now=now) if _may_have_work(store, worker, now) else []
    if not grants:
        return None
    held = list_held(store, worker.id)[worker.id]
    [mine] = [lease for lease in held if lease.fence == grants[0].fence]
    return Trigger(kind="task", task=describe_claimed(store, mine))


def _may_have_work(store: Store, worker: Worker, now: float) -> bool:
    return may_have_work(store, worker.id, capabilities=worker.capabilities, now=now)


def take_back(store: Store, trigger: Trigger, *, now: float) -> None:
    """Release a task that was claimed for a member which is gone."""
    if trigger.task is not None:
        release(store, trigger.task.fence, now=now, reason="its member was gone")
