"""`weft send`: a message to a task, to a member of the swarm, or to a lead.

A lead without an open task gets a task with the message; a lead at work hears it before it ends.
"""

from __future__ import annotations

from msgspec import Struct

from weft.errors import AlreadyEnded, InputError, NotFound
from weft.model import LEAD, Class
from weft.project.agent_list import get_agent
from weft.project.own_repository import get_repository
from weft.project.project import Project
from weft.project.site import agent_names
from weft.runs import single_task
from weft.runs.task_names import get_named_task
from weft.store import Store
from weft.store.messages import find_open_lead
from weft.store.server_operations import hosted
from weft.swarm.dispatch import address, send
from weft.swarm.identity import WORK, Identity, need
from weft.swarm.inbox import send_message
from weft.swarm.membership import list_members
from weft.swarm.swarm_records import NewWork


class Delivery(Struct, frozen=True, kw_only=True):
    """The receiver of a message: a task or a member."""

    task: int | None = None
    member: str | None = None
    started: bool = False  # the message became a new task of a lead

    def __str__(self) -> str:
        if self.member is not None:
            return f"It is in the inbox of {self.member}."
        if self.started:
            return f"Task {self.task} was started with it."
        return f"Task {self.task} gets it when its agent polls, or with its next attempt."


@hosted("write")
def write(project: Project, who: Identity, to: str, text: str, *, now: float) -> Delivery:
    """Send a message. A lead's name goes before a member's, a member's before a task's name;
    numbers are tasks."""
    if not text.strip():
        raise InputError('Say something: weft send 12 "look at README.md first".')
    with project.open_store() as store:
        return _deliver(project, store, who, to, text, now=now)


def _deliver(
    project: Project, store: Store, who: Identity, to: str, text: str, *, now: float
) -> Delivery:
    if not to.isdecimal() and to in agent_names(project.root):
        return _write_to_lead(project, store, who, to, text, now=now)
    member = _find_member(store, who, to, now=now)
    if member is not None:
        send_message(store, who, text, member=member, now=now)
        return Delivery(member=member)
    task = _get_task(store, to)
    send_message(store, who, text, root=project.root, task=task, now=now)
    return Delivery(task=task)


def _find_member(store: Store, who: Identity, to: str, *, now: float) -> str | None:
    present = list_members(store, who, now=now)
    exact = [member.id for member in present if member.id == to]
    called = exact or [member.id for member in present if member.name == to]
    if len(called) > 1:
        raise InputError(f"{to!r} is what several members are called; say {' or '.join(called)}.")
    return called[0] if called else None


def _write_to_lead(
    project: Project, store: Store, who: Identity, name: str, text: str, *, now: float
) -> Delivery:
    need(who, WORK)
    agent = get_agent(project, name)
    if agent.stage != LEAD:
        raise InputError(f"{name} is no lead; write to one of its tasks, by number.")
    task = find_open_lead(store, get_repository(project.root, store), name)
    if task is not None:
        try:
            send_message(store, who, text, root=project.root, task=task, now=now)
        except AlreadyEnded:
            pass  # just now: it gets another task
        else:
            return Delivery(task=task)
    single_task.check(project, text, files=[single_task.NOTHING], agent=name)
    work = address(store, who, project, NewWork(text=text, agent=name, klass=Class.INTERACTIVE))
    return Delivery(task=send(store, who, work, now=now).task, started=True)


def _get_task(store: Store, to: str) -> int:
    try:
        return get_named_task(store, to).id
    except (InputError, NotFound) as error:
        raise InputError(
            f"{to!r} is no task, member or lead. `weft ps` lists tasks, `weft agents` the others."
        ) from error
