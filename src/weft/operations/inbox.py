"""Messages to running tasks and to members, and news for an agent that weft started.

An agent that weft started is no member: it reads the messages to its task. A lead also hears how
the tasks that it sent have ended.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from weft import bounds
from weft.errors import AlreadyEnded, Forbidden, InputError, NotFound
from weft.model import HUMAN, LEAD, SWARM, Class, Message, Notice, Task
from weft.operations import single_task
from weft.operations.dispatch import address, send
from weft.operations.identity import (
    WORK,
    Identity,
    get_acting,
    get_called,
    get_sender,
    get_visible_task,
    has,
    need,
    need_agent,
    sends_to_all,
)
from weft.operations.member_records import NewWork, Trigger
from weft.operations.membership import list_members
from weft.project.agent_list import get_agent
from weft.project.own_repository import get_repository
from weft.project.project import Project
from weft.project.site import agent_names, read_agent
from weft.runs.task_names import get_named_task
from weft.store import Store
from weft.store.members import list_held
from weft.store.messages import (
    confirm_to_member,
    confirm_to_task,
    find_open_lead,
    list_ends,
    list_to_member,
    list_to_task,
    post_to_member,
    post_to_task,
)
from weft.store.server_operations import hosted
from weft.store.store import writes
from weft.store.tokens import refuse_revoked

_AND: Final = "/"


@writes
def send_message(
    store: Store,
    who: Identity,
    text: str,
    *,
    root: Path | None = None,
    task: int | None = None,
    member: str | None = None,
    sender: str | None = None,
    now: float,
) -> Message:
    """Write to a task that has not ended, or to a member, by id or name.

    An agent of the repository obeys its messages, so writing to its task counts as sending it work.
    Without the `root` of the repository, only identities that send to all agents may write.
    """
    need(who, WORK)
    if len(text) > bounds.MESSAGE:
        raise InputError(f"A message has at most {bounds.MESSAGE} characters.")
    name = get_sender(store, who, sender, now=now)
    if task is not None and member is None:
        about = get_visible_task(store, who, task)
        _refuse_others_agent(who, root, about)
        return post_to_task(store, about.id, sender=name, text=text, now=now)
    if member is not None and task is None:
        worker = get_called(store, member, now=now)
        return post_to_member(store, worker.id, sender=name, text=text, now=now)
    raise InputError("A message goes to a task or to a member.")


def _refuse_others_agent(who: Identity, root: Path | None, task: Task) -> None:
    if sends_to_all(who) or task.repo.startswith(SWARM) or task.agent in (None, HUMAN):
        return
    if root is None or task.agent is None:
        raise Forbidden(f"This token may not write to task {task.id}.")
    need_agent(who, read_agent(root, task.agent))


@writes
def read_messages(
    store: Store,
    who: Identity,
    *,
    task: int | None = None,
    member: str | None = None,
    ack: str | None = None,
    now: float,
) -> tuple[tuple[Message, ...], str | None]:
    """Return the unconfirmed messages, and the `ack` that confirms them.

    The messages of a member are for identities that act as it, those of a task for the agent that
    weft started for it.
    """
    upto = confirmed_messages(ack)
    if task is not None and member is None:
        if who.task != task:
            raise Forbidden("Only a task's own agent reads the messages to it.")
        if upto is not None:
            confirm_to_task(store, task, upto, now=now)
        messages = tuple(list_to_task(store, task))
    elif member is not None and task is None:
        get_acting(store, who, member, now=now)
        holding = [held.task for held in list_held(store, member).get(member, []) if held.current]
        if upto is not None:
            confirm_to_member(store, member, upto, holding=holding, now=now)
        messages = tuple(list_to_member(store, member, holding=holding))
    else:
        raise InputError("Messages are read of a task or of a member.")
    return messages, ack_messages(messages)


@writes
def find_news(store: Store, who: Identity, *, ack: str | None, now: float) -> Trigger | None:
    """Return the messages and ended tasks that the agent of a task has not confirmed."""
    if who.task is None:
        raise Forbidden("Only an agent that weft started has a task of its own.")
    refuse_revoked(store, who.token, now=now)
    confirmed, last_end = _parse(ack)
    messages, message_ack = read_messages(store, who, task=who.task, ack=confirmed, now=now)
    ends = list_ends(store, who.task, after=last_end) if has(who, WORK) else []
    if not messages and not ends:
        return None
    last = ends[-1].event if ends else last_end
    return Trigger(
        kind="messages" if messages else "finished",
        messages=messages,
        finished=tuple(ends),
        ack=f"{last}{_AND}{message_ack or ''}",
    )


def _parse(ack: str | None) -> tuple[str | None, int]:
    """Split an `ack` of `find_news` into that of messages and the last ended task."""
    if ack is None:
        return None, 0
    event, slash, messages = ack.partition(_AND)
    if not slash or not event.isdecimal() or not event.isascii() or len(event) > 18:
        raise InputError("The `ack` is one that poll_task answered.")
    return messages or None, int(event)


_ACK: Final = re.compile(r"([me])([0-9]{1,18})", re.ASCII)


def ack_messages(messages: Sequence[Message]) -> str | None:
    return f"m{messages[-1].id}" if messages else None


def ack_notices(notices: Sequence[Notice]) -> str | None:
    return f"e{notices[-1].event}" if notices else None


def confirmed_messages(ack: str | None) -> int | None:
    """Return the last confirmed message, if the `ack` is about messages."""
    return _number(ack, "m")


def confirmed_notices(ack: str | None) -> int | None:
    return _number(ack, "e")


def _number(ack: str | None, kind: str) -> int | None:
    if ack is None:
        return None
    match = _ACK.fullmatch(ack)
    if match is None:
        raise InputError("This is not an `ack` that weft gave; leave it out.")
    return int(match[2]) if match[1] == kind else None


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
