"""Write-back of task states into prd.json and task-master's tasks.json.

Only `passes`, `skipped` and `notes` of a story, or the `status` of a task, are changed or added.
The text around them stays as it is, byte for byte.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from weft.model import State
from weft.plan import prd, task_master
from weft.plan.json_document import Node
from weft.plan.json_edits import Change, edit_objects, find_spelling
from weft.plan.json_fields import Fields
from weft.plan.plan_records import Source
from weft.plan.task_status import RUNNING, Status

_STOPPED: Final = frozenset({State.BLOCKED, State.FAILED, State.EVICTED})
_UNREADABLE: Final = "\ufffd"  # a byte that is not UTF-8: writing the text would replace it


def write_values(
    kind: Source, name: str, data: bytes, statuses: Mapping[str, Status]
) -> tuple[bytes, set[str]]:
    """Return the file with these statuses, and the ids of all its tasks."""
    if not statuses:
        return data, set()
    find_objects, list_changes = _FORMATS[kind]
    return edit_objects(
        name,
        data,
        find_objects,
        lambda id, members: list_changes(members, statuses[id]) if id in statuses else (),
    )


def _change_story(members: Mapping[str, Node], status: Status) -> Iterator[Change]:
    for key, state in (("passes", State.DONE), ("skipped", State.SKIPPED)):
        spelling = find_spelling(members, key)
        if status.state is state or (spelling is not None and members[spelling].value is True):
            yield key, status.state is state
    spelling = find_spelling(members, "notes")
    present = "" if spelling is None else members[spelling].value
    if isinstance(present, str) and _UNREADABLE not in present:
        notes = prd.join_notes(present, _note(status))
        if notes != present:
            yield "notes", notes


def _note(status: Status) -> str:
    if status.state is State.DONE:
        return f"landed as {status.commit}" if status.commit else ""
    if status.state in _STOPPED:
        return f"{status.state}: {status.safe_note}".removesuffix(": ")
    return ""


def _change_task(members: Mapping[str, Node], status: Status) -> Iterator[Change]:
    spelling = find_spelling(members, "status")
    present = "" if spelling is None else members[spelling].value
    held = task_master.STATUSES.get(str(present).lower(), State.BLOCKED)
    word = _word(status.state)
    if held is not task_master.STATUSES[word]:
        # A task that is deferred or under review stays so while it is held back.
        yield "status", word


def _word(state: State) -> str:
    if state in RUNNING:
        return "in-progress"
    if state in _STOPPED:
        return "blocked"
    return {State.DONE: "done", State.SKIPPED: "cancelled"}.get(state, "pending")


_FORMATS: Final[
    Mapping[
        Source,
        tuple[
            Callable[[Fields], dict[str, Node]],
            Callable[[Mapping[str, Node], Status], Iterator[Change]],
        ],
    ]
] = {
    Source.PRD: (prd.find_objects, _change_story),
    Source.TASK_MASTER: (task_master.find_objects, _change_task),
}
FORMATS: Final = frozenset(_FORMATS)
