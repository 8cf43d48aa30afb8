"""Edits of a JSON document that leave every other byte as it is."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from weft.errors import InputError
from weft.plan.json_document import JsonDocument, Node, NotJSON
from weft.plan.json_fields import Fields
from weft.plan.problems import Problems

_BOM: Final = "\ufeff"
Change = tuple[str, Any]  # a key and its new value
Edit = tuple[int, int, str]  # a range of the text and its replacement


def edit_objects(
    name: str,
    data: bytes,
    find_objects: Callable[[Fields], dict[str, Node]],
    list_changes: Callable[[str, Mapping[str, Node]], Iterable[Change]],
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


def _edit(text: str, node: Node, changes: Iterable[Change]) -> Iterator[Edit]:
    """Replace values of an object; add the missing values behind its last value, as it is set."""
    members: dict[str, Node] = node.value
    added = ""
    last = max((member.end for member in members.values()), default=node.at + 1)
    gap = text[node.at + 1 : text.index('"', node.at)] if members else ""
    for key, value in changes:
        written = json.dumps(value, ensure_ascii=False)
        spelling = find_spelling(members, key)
        if spelling is None:
            added += f',{gap or " "}"{key}": {written}'
        elif members[spelling].value != value:
            yield members[spelling].at, members[spelling].end, written
    if added:
        yield last, last, added if members else added[1:].lstrip()


def find_spelling(members: Mapping[str, Node], key: str) -> str | None:
    """Return a key as the author of an object has spelt it."""
    plain = key.replace("_", "").lower()
    return next((name for name in members if name.replace("_", "").lower() == plain), None)
