"""News for an agent that weft started, and words to one that leads.

An agent that weft started is no member: it has its task, and hears what is written to that. A
lead also hears how the tasks ended that it sent. Who writes to a lead that has no task open gives
it one, and who writes while it works is heard before it is done.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from weft.errors import AlreadyEnded, Forbidden, InputError
from weft.model import LEAD, Class
from weft.project.agent_list import get_agent
from weft.project.project import Project
from weft.runs import single_task
from weft.store import Store
from weft.store.messages import find_open_lead, list_ends
from weft.store.store import writes
from weft.store.tokens import refuse_revoked
from weft.swarm.addressee import address
from weft.swarm.dispatch import DEFAULT_TENANT, send
from weft.swarm.identity import WORK, Identity, has, need
from weft.swarm.inbox import read_messages, send_message
from weft.swarm.swarm_records import NewWork, Trigger

_AND: Final = "/"


class LeadMessage(Struct, frozen=True, kw_only=True):
    task: int
    started: bool  # False: it was open already, and has one more message


@writes
def news(store: Store, who: Identity, *, ack: str | None, now: float) -> Trigger | None:
    """What the agent of a task has not been told, or has not confirmed; None if nothing."""
    if who.task is None:
        raise Forbidden("Only an agent that weft started has a task of its own.")
    refuse_revoked(store, who.token, now=now)
    confirmed, seen = _parse(ack)
    messages, told = read_messages(store, who, task=who.task, ack=confirmed, now=now)
    finished = list_ends(store, who.task, after=seen) if has(who, WORK) else []
    if not messages and not finished:
        return None
    last = finished[-1].event if finished else seen
    return Trigger(
        kind="messages" if messages else "finished",
        messages=messages,
        finished=tuple(finished),
        ack=f"{last}{_AND}{told or ''}",
    )


def _parse(ack: str | None) -> tuple[str | None, int]:
    if ack is None:
        return None, 0
    event, slash, messages = ack.partition(_AND)
    if not slash or not event.isdecimal() or not event.isascii() or len(event) > 18:
        raise InputError("The `ack` is one that poll_task answered.")
    return messages or None, int(event)


def write_to_lead(
    project: Project, store: Store, who: Identity, name: str, text: str, *, now: float
) -> LeadMessage:
    """A word to a lead by the name of its agent file; starts it if it has nothing to do."""
    need(who, WORK)
    agent = get_agent(project, name)
    if agent.stage != LEAD:
        raise InputError(f"{name} is no lead; write to one of its tasks, by number.")
    tenant = who.tenant or DEFAULT_TENANT
    task = find_open_lead(store, single_task.repository(project), name, tenant=tenant)
    if task is not None:
        try:
            send_message(store, who, text, root=project.root, task=task, now=now)
        except AlreadyEnded:
            pass  # just now: it gets another one
        else:
            return LeadMessage(task=task, started=False)
    single_task.check(project, text, files=[single_task.NOTHING], agent=name)
    asked = NewWork(text=text, agent=name, klass=Class.INTERACTIVE)
    work = address(who, project, asked)
    return LeadMessage(task=send(store, who, work, now=now).task, started=True)
