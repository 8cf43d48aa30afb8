"""Messages to tasks and to members, kept until they are confirmed; and news for leads.

A lead is an ordinary task whose agent sends tasks. Its sent tasks are known by its number,
so every attempt of it knows them; all of it is derived from tasks and events.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from msgspec import Struct

from weft.errors import AlreadyEnded, InputError, QueueFull
from weft.model import TERMINAL, Message, Notice, Stage, State, Task
from weft.store import row_records
from weft.store.database import Transaction, encode_keys
from weft.store.row_records import get_task_row
from weft.store.store import reads, writes
from weft.store.tasks import retry
from weft.words import state_word

PERSON: Final = "the user"
_TOLD: Final = 50  # messages or notices in an answer


@writes
def post_to_task(tx: Transaction, task: int, *, sender: str, text: str, now: float) -> Message:
    """Send a message to a task that has not ended: its agent gets it, or the next agent."""
    row = get_task_row(tx, task)
    name = row_records.label(row)
    if State(row["state"]) in TERMINAL:
        state = state_word(row["state"])
        raise AlreadyEnded(f"Task {name} is {state} already; no agent would read the message.")
    _refuse_unusable(text)
    if len(tx.all("messages_to_task", to=task, most=tx.tuning.inbox)) >= tx.tuning.inbox:
        raise QueueFull(f"{tx.tuning.inbox} messages wait for task {name} already; try later.")
    tx.event("message_sent", row, now=now, sender=sender)
    tx.wake()
    return _post(tx, task, None, sender, text, now)


class TaskMessage(Struct, frozen=True, kw_only=True):
    """A message to a task, with its way to the agent."""

    id: int
    sender: str
    text: str
    at: float
    delivered: float | None  # to an agent
    heard: float | None  # first report of the agent after the delivery


@reads
def list_sent_to_task(tx: Transaction, task: int) -> list[TaskMessage]:
    """List all messages to a task, oldest first."""
    return [row_records.record(TaskMessage, row) for row in tx.all("messages_of_task", task=task)]


@writes
def retry_with_note(
    tx: Transaction,
    task: int,
    note: str,
    *,
    now: float,
    stage: Stage | None = None,
    files: Sequence[str] = (),
) -> bool:
    """Reopen a task and send its next agent a person's note; return False if it is under way."""
    if not retry(tx, task, now=now, stage=stage, files=files):
        return False
    if note.strip():
        post_to_task(tx, task, sender=PERSON, text=note, now=now)
    return True


@writes
def post_to_member(tx: Transaction, member: str, *, sender: str, text: str, now: float) -> Message:
    _refuse_unusable(text)
    if len(tx.all("messages_to_worker", to=member, most=tx.tuning.inbox)) >= tx.tuning.inbox:
        raise QueueFull(f"{tx.tuning.inbox} messages wait for {member} already; try later.")
    tx.wake()
    return _post(tx, None, member, sender, text, now)


def _refuse_unusable(text: str) -> None:
    if not text.strip():
        raise InputError("A message needs words.")


def _post(
    tx: Transaction, task: int | None, worker: str | None, sender: str, text: str, now: float
) -> Message:
    kept = tx.redact(text)
    tx.run("add_message", to_task=task, to_worker=worker, sender=sender, text=kept, now=now)
    number = int(tx.value("last_message"))
    return Message(id=number, to_task=task, to_worker=worker, sender=sender, text=kept, at=now)


@reads
def list_to_task(tx: Transaction, task: int) -> list[Message]:
    """List the first messages that a task has not confirmed."""
    return [row_records.message(row) for row in tx.all("messages_to_task", to=task, most=_TOLD)]


@reads
def list_to_member(tx: Transaction, member: str, *, holding: Collection[int] = ()) -> list[Message]:
    """List the first messages that a member has not confirmed, for itself or for tasks it holds."""
    rows = list(tx.all("messages_to_worker", to=member, most=_TOLD))
    if holding:
        tasks = encode_keys(map(str, holding))
        rows += tx.all("messages_to_tasks", tasks=tasks, most=_TOLD)
    return sorted(map(row_records.message, rows), key=lambda message: message.id)[:_TOLD]


@writes
def confirm_to_task(tx: Transaction, task: int, upto: int, *, now: float) -> None:
    tx.run("confirm_to_task", to=task, upto=upto, now=now)


@writes
def confirm_to_member(
    tx: Transaction, member: str, upto: int, *, holding: Collection[int] = (), now: float
) -> None:
    tx.run("confirm_to_worker", to=member, upto=upto, now=now)
    for task in holding:
        tx.run("confirm_to_task", to=task, upto=upto, now=now)


def task_sender(task: int) -> str:
    """Return the name under which a task sends other tasks."""
    return f"task {task}"


@reads
def list_sent(tx: Transaction, task: int) -> list[Task]:
    """List the latest tasks that a task has sent, oldest first."""
    rows = tx.all("sent_by", sender=task_sender(task), most=_TOLD)
    return [row_records.task(row) for row in reversed(rows)]


@reads
def list_ends(tx: Transaction, task: int, *, after: int) -> list[Notice]:
    """List the ends of tasks that a task has sent, after an event."""
    rows = tx.all("ends_of_sent", sender=task_sender(task), after=after)
    notices = [notice for row in rows if (notice := row_records.find_notice(row)) is not None]
    return notices[:_TOLD]


@reads
def find_open_lead(tx: Transaction, repo: str, agent: str) -> int | None:
    """Return the latest open task of a lead, by which it can be written to."""
    row = tx.one("open_lead", repo=repo, agent=agent)
    return None if row is None else int(row["id"])
