"""Write-back of task states into prd.json and task-master's tasks.json.

Only `passes`, `skipped` and `notes` of a story, or the `status` of a task, are changed or added.
The text around them stays as it is, byte for byte.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from weft.errors import InputError
from weft.model import State
from weft.plan import prd, task_master
from weft.plan.json_document import JsonDocument, Node, NotJSON
from weft.plan.json_fields import Fields
from weft.plan.plan_records import Source
from weft.plan.problems import Problems
from weft.plan.task_status import RUNNING, Status

_STOPPED: Final = frozenset({State.BLOCKED, State.FAILED, State.EVICTED})
_UNREADABLE: Final = "\ufffd"  # a byte that is not UTF-8: writing the text would replace it
_BOM: Final = "\ufeff"
Change = tuple[str, Any]  # a key and its new value
Edit = tuple[int, int, str]  # a range of the text and its replacement


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
        lambda id, members: list_changes(members, statuses[id]) if id in statuses else iter(()),
    )


def edit_objects(
    name: str,
    data: bytes,
    find_objects: Callable[[Fields], dict[str, Node]],
    list_changes: Callable[[str, Mapping[str, Node]], Iterator[Change]],
) -> tuple[bytes, set[str]]:
    """Return the file with these changes of its objects, and the ids of all of them."""
    text = data.decode("utf-8", "surrogateescape")
    lead = _BOM if text.startswith(_BOM) else ""
    text = text.removeprefix(_BOM)
    try:
        document = JsonDocument(text)
    except NotJSON as wrong:
        # An author may be in the middle of an edit: the caller tries again.
        raise InputError(f"{name} is no JSON at present: {wrong.message}.") from wrong
    objects = find_objects(Fields(document, Problems(name)))
    edits = [
        edit
        for id, node in objects.items()
        if isinstance(node.value, dict)
        for edit in _edit(text, node, list_changes(id, node.value))
    ]
    for start, end, replacement in sorted(edits, reverse=True):
        text = text[:start] + replacement + text[end:]
    return (lead + text).encode("utf-8", "surrogateescape"), set(objects)


def _edit(text: str, node: Node, changes: Iterator[Change]) -> Iterator[Edit]:
    """Replace values of an object; add the missing values behind its last value, as it is set."""
    members: dict[str, Node] = node.value
    added = ""
    last = max((member.end for member in members.values()), default=node.at + 1)
    gap = text[node.at + 1 : text.index('"', node.at)] if members else ""
    for key, value in changes:
        written = json.dumps(value, ensure_ascii=False)
        spelling = _spelling(members, key)
        if spelling is None:
            added += f',{gap or " "}"{key}": {written}'
        elif members[spelling].value != value:
            yield members[spelling].at, members[spelling].end, written
    if added:
        yield last, last, added if members else added[1:]


def _spelling(members: Mapping[str, Node], key: str) -> str | None:
    return next((name for name in members if name.replace("_", "").lower() == key), None)


def _change_story(members: Mapping[str, Node], status: Status) -> Iterator[Change]:
    for key, state in (("passes", State.DONE), ("skipped", State.SKIPPED)):
        spelling = _spelling(members, key)
        if status.state is state or (spelling is not None and members[spelling].value is True):
            yield key, status.state is state
    spelling = _spelling(members, "notes")
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
    spelling = _spelling(members, "status")
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
