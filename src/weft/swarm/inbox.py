"""Messages to tasks that run and to members."""

from __future__ import annotations

from pathlib import Path

from weft import bounds
from weft.errors import Forbidden, InputError
from weft.model import HUMAN, SWARM, Message, Task
from weft.project.site import read_agent
from weft.store import Store
from weft.store.members import list_held
from weft.store.messages import (
    confirm_to_member,
    confirm_to_task,
    list_to_member,
    list_to_task,
    post_to_member,
    post_to_task,
)
from weft.store.store import writes
from weft.swarm.access import get_acting, get_called, get_sender, get_visible_task
from weft.swarm.acknowledgements import confirmed_messages, of_messages
from weft.swarm.identity import WORK, Identity, need, need_agent, sends_to_all


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
        worker = get_called(store, who, member, now=now)
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
    """Those not yet confirmed, and what confirms them when given back: of a member for whoever
    acts as it, of a task for the agent that weft started for it."""
    upto = confirmed_messages(ack)
    if task is not None and member is None:
        if who.task != task:
            raise Forbidden("Only a task's own agent reads what is said to it.")
        if upto is not None:
            confirm_to_task(store, task, upto, now=now)
        found = tuple(list_to_task(store, task))
    elif member is not None and task is None:
        get_acting(store, who, member, now=now)
        holding = [one.task for one in list_held(store, member).get(member, []) if one.current]
        if upto is not None:
            confirm_to_member(store, member, upto, holding=holding, now=now)
        found = tuple(list_to_member(store, member, holding=holding))
    else:
        raise InputError("Messages are read of a task or of a member.")
    return found, of_messages(found)
