"""Subtasks written into a plan: below its phase in a plan.md, into its story in a prd.json.

No member byte of the file changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from msgspec import Struct

from weft.errors import InputError
from weft.plan import markdown, prd, source
from weft.plan.annotator import insert_lines, quote_path
from weft.plan.json_document import edit_objects
from weft.plan.plan_records import Plan, PlanTask, ReaderOptions, Source
from weft.plan.problems import Problems

SPLIT_FORMATS: Final = frozenset({Source.MARKDOWN, Source.PRD})
"""The formats that have subtasks."""

_COMMENT: Final = "<!--"


class NewPart(Struct, frozen=True, kw_only=True):
    """A subtask to be written."""

    text: str  # a single line
    files: tuple[str, ...]
    new: tuple[str, ...] = ()  # those of `files` that it creates
    after: tuple[int, ...] = ()  # the parts that it waits for, by their place
    check: str = ""
    details: str = ""


def write_parts(plan: Plan, data: bytes, task: PlanTask, parts: Sequence[NewPart]) -> bytes:
    """Return the plan with the parts as subtasks of the task."""
    ids = list_ids(plan, task, len(parts))
    if plan.source is Source.PRD:
        return _write_json(plan.name, data, task, parts, ids)
    if plan.source is not Source.MARKDOWN:
        raise InputError(
            f"{plan.name} is a plan of {plan.source}, in which weft writes no subtasks; a "
            "plan.md and a prd.json can be split."
        )
    return _write_markdown(plan, data, task, parts, ids)


def list_ids(plan: Plan, task: PlanTask, number: int) -> list[str]:
    """Return free ids for subtasks: 1.2.a, 1.2.b and so on."""
    taken = {member.id for member in plan.tasks}
    letters = "abcdefghijklmnopqrstuvwxyz"
    free = [f"{task.id}.{letter}" for letter in letters if f"{task.id}.{letter}" not in taken]
    return free[:number]


def _write_json(
    name: str, data: bytes, task: PlanTask, parts: Sequence[NewPart], ids: Sequence[str]
) -> bytes:
    subtasks = [_as_object(part, id, ids) for part, id in zip(parts, ids, strict=True)]

    def list_changes(id: str, _: object) -> Iterator[tuple[str, Any]]:
        if id == task.id:
            yield "subtasks", subtasks

    return edit_objects(name, data, partial(prd.find_objects, Source.PRD), list_changes)[0]


def _as_object(part: NewPart, id: str, ids: Sequence[str]) -> dict[str, Any]:
    needs = [ids[place] for place in part.after]
    return {
        "id": id,
        "description": f"{part.text}\n{part.details}".strip(),
        "files": list(part.files),
        **({"depends_on": needs} if needs else {}),
        **({"check": part.check} if part.check else {}),
    }


def _write_markdown(
    plan: Plan, data: bytes, task: PlanTask, parts: Sequence[NewPart], ids: Sequence[str]
) -> bytes:
    text = source.decode(data, Problems(plan.name))
    assert text is not None, "the plan was read before"
    members = [member for member in plan.tasks if member.phase == task.phase]
    at = _end_of_task(text.lines, max(member.line for member in members))
    lines: list[str] = []
    for part, id in zip(parts, ids, strict=True):
        lines += _lines(part, id, task, ids)
    written = source.encode(insert_lines(text, {at: lines}))
    _require_parts(plan.name, written, dict(zip(ids, parts, strict=True)))
    return written


def _end_of_task(lines: Sequence[str], first: int) -> int:
    """Return the line behind the block of a task, which begins at line `first`, from 1."""
    last = first
    for number in range(first, len(lines)):
        line = lines[number]
        is_own = line.startswith((" ", "\t", _COMMENT))
        if line.strip() and not is_own and not lines[number - 1].strip():
            break
        if line.strip() and not is_own and line.startswith("#"):
            break
        if line.strip():
            last = number + 1
    return last


def _lines(part: NewPart, id: str, task: PlanTask, ids: Sequence[str]) -> Iterator[str]:
    yield f"- [ ] {part.text}"
    old = [file for file in part.files if file not in part.new]
    notes = [f"id: {id}", f"part-of: {task.id}"]
    notes += [f"files: {', '.join(map(quote_path, old))}"] if old else []
    notes += [f"new: {', '.join(map(quote_path, part.new))}"] if part.new else []
    notes += [f"depends: {', '.join(ids[place] for place in part.after)}"] if part.after else []
    yield f"  <!-- {'; '.join(notes)} -->"
    if part.check:
        yield f"  <!-- check: {part.check} -->"
    yield from (f"  {line}".rstrip() for line in part.details.splitlines())


def _require_parts(name: str, written: bytes, parts: Mapping[str, NewPart]) -> None:
    """Refuse to write what would be read as another plan, such as a path with `-->` in it."""
    tasks = {task.id: task for task in markdown.read(name, written, ReaderOptions()).plan.tasks}
    for id, part in parts.items():
        task = tasks.get(id)
        if task is None or task.parent is None or set(task.files or ()) != set(part.files):
            raise InputError(f"The parts cannot be written into {name}: a path breaks its lines.")
