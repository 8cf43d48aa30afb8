"""Messages to running tasks and to members, and news for an agent that weft started.

An agent that weft started is no member: it reads the messages to its task. A lead also hears how
the tasks that it sent have ended.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from weft import bounds
from weft.errors import Forbidden, InputError
from weft.model import HUMAN, SWARM, Message, Task
from weft.project.site import read_agent
from weft.store import Store
from weft.store.members import list_held
from weft.store.messages import (
    confirm_to_member,
    confirm_to_task,
    list_ends,
    list_to_member,
    list_to_task,
    post_to_member,
    post_to_task,
)
from weft.store.store import writes
from weft.store.tokens import refuse_revoked
from weft.swarm.access import get_acting, get_called, get_sender, get_visible_task
from weft.swarm.acknowledgements import confirmed_messages, of_messages
from weft.swarm.identity import WORK, Identity, has, need, need_agent, sends_to_all
from weft.swarm.swarm_records import Trigger

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
    return messages, of_messages(messages)


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
