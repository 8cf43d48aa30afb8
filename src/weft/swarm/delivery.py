"""`weft send`: a word to a task, to a member of the swarm, or to a lead."""

from __future__ import annotations

from msgspec import Struct

from weft.errors import InputError, NotFound
from weft.project.project import Project
from weft.project.site import agent_names
from weft.runs.task_names import name_task
from weft.store import Store
from weft.store.server_operations import hosted
from weft.swarm.identity import Identity
from weft.swarm.inbox import send_message
from weft.swarm.lead_news import write_to_lead
from weft.swarm.membership import list_members


class Delivery(Struct, frozen=True, kw_only=True):
    """Where a message went: exactly one of the two."""

    task: int | None = None
    member: str | None = None
    started: bool = False  # a lead got a new task by it

    def __str__(self) -> str:
        if self.member is not None:
            return f"It is in the inbox of {self.member}."
        if self.started:
            return f"Task {self.task} was started with it."
        return f"Task {self.task} gets it when its agent polls, or with its next attempt."


@hosted("write")
def write(project: Project, who: Identity, to: str, text: str, *, now: float) -> Delivery:
    """A lead's name goes before a member's, a member's before a task's name; numbers are tasks."""
    if not text.strip():
        raise InputError('Say something: weft send 12 "look at README.md first".')
    with project.open_store() as store:
        return _deliver(project, store, who, to, text, now=now)


def _deliver(
    project: Project, store: Store, who: Identity, to: str, text: str, *, now: float
) -> Delivery:
    if not to.isdecimal() and to in agent_names(project.root):
        done = write_to_lead(project, store, who, to, text, now=now)
        return Delivery(task=done.task, started=done.started)
    member = _find_member(store, who, to, now=now)
    if member is not None:
        send_message(store, who, text, member=member, now=now)
        return Delivery(member=member)
    task = _name(store, to)
    send_message(store, who, text, root=project.root, task=task, now=now)
    return Delivery(task=task)


def _find_member(store: Store, who: Identity, to: str, *, now: float) -> str | None:
    present = list_members(store, who, now=now)
    exact = [one.id for one in present if one.id == to]
    called = exact or [one.id for one in present if one.name == to]
    if len(called) > 1:
        raise InputError(f"{to!r} is what several members are called; say {' or '.join(called)}.")
    return called[0] if called else None


def _name(store: Store, to: str) -> int:
    try:
        return name_task(store, to).id
    except (InputError, NotFound) as error:
        raise InputError(
            f"{to!r} is no task, member or lead. `weft ps` lists tasks, `weft agents` the others."
        ) from error
