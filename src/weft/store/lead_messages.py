"""What a lead of weft's own is told, and when it is needed again.

A lead is an ordinary task whose agent hands work to others. What it sent is known by its task, so
every attempt of it knows; nothing here is kept, all of it is read off the tasks and events.
"""

from __future__ import annotations

from typing import Final

from weft.model import LEAD, Notice, State, Task
from weft.store import row_records
from weft.store.database import Row, Transaction
from weft.store.store import reads

_TOLD: Final = 50  # tasks, or ends of tasks, told in one go


def sender(task: int) -> str:
    """What is remembered of a task as the sender of others."""
    return f"task {task}"


@reads
def list_sent(tx: Transaction, task: int) -> list[Task]:
    """The latest tasks that one has sent, oldest first."""
    rows = tx.all("sent_by", sender=sender(task), most=_TOLD)
    return [row_records.task(row) for row in reversed(rows)]


@reads
def list_ends(tx: Transaction, task: int, *, after: int) -> list[Notice]:
    """How tasks that one has sent ended, as far as that came after an event."""
    rows = tx.all("ends_of_sent", sender=sender(task), after=after)
    found = [told for row in rows if (told := row_records.find_notice(row)) is not None]
    return found[:_TOLD]


@reads
def find_open(tx: Transaction, repo: str, agent: str, *, tenant: str) -> int | None:
    """The task by which a lead can be written to: the latest that has not ended."""
    row = tx.one("open_lead", repo=repo, agent=agent, tenant=tenant)
    return None if row is None else int(row["id"])


def is_written_to(tx: Transaction, task: Row, attempt: int) -> bool:
    """Whether a lead that has ended its work shall go on, since somebody wrote to it meanwhile.

    Bounded: two leads that write to each other come to an end too.
    """
    if task["stage"] != LEAD or attempt >= tx.tuning.lead_turns:
        return False
    return bool(tx.all("messages_to_task", to=task["id"], most=1))


GOES_ON: Final = (State.READY, "somebody wrote to it meanwhile")
