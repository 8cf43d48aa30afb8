"""Reader of task-master's tasks.json: {"master": {"tasks": […]}}, or {"tasks": […]} of old.

A task without subtasks is a task. A task with subtasks stands for them: each of them lands alone,
and the task is done after the last. Only `dependencies` order the work.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from msgspec.structs import replace

from weft.formats import count, listed
from weft.model import HUMAN, Priority, State
from weft.plan import task_line
from weft.plan.json_document import Fields, Node, spellings
from weft.plan.plan_records import ItemKind, ParsedPlan, Plan, PlanTask, ReaderOptions, Source
from weft.plan.prd import ALL_AT_ONCE, TaskDraft, list_tasks, read_json_plan
from weft.plan.problems import shorten

_OWN_TAG: Final = "master"
_SUBTASK_KEYS: Final = (
    "id",
    "title",
    "description",
    "details",
    "test_strategy",
    "status",
    "dependencies",
    "metadata",
    "files",
)
_SUBTASK: Final = spellings(_SUBTASK_KEYS, {})
_TASK: Final = spellings((*_SUBTASK_KEYS, "priority", "subtasks"), {})
STATUSES: Final[Mapping[str, State]] = {
    "pending": State.WAITING,
    "in-progress": State.RUNNING,
    "review": State.BLOCKED,
    "deferred": State.BLOCKED,
    "blocked": State.BLOCKED,
    "done": State.DONE,
    "completed": State.DONE,
    "cancelled": State.SKIPPED,
}
"""The statuses of the format. Work under review or deferred is held back: a person has it."""
_PRIORITIES: Final = {"medium": Priority.NORMAL, **{p.name.lower(): p for p in Priority}}
_NO_FILES: Final = 'Add "metadata": {"files": […]}, or "files": "none" in it.'


def read(name: str, data: bytes, options: ReaderOptions) -> ParsedPlan:
    """Read a tasks.json; for any bytes, return a plan and its problems."""
    return read_json_plan(Source.TASK_MASTER, name, data, partial(_plan, options))


def find_objects(fields: Fields) -> dict[str, Node]:
    """Return the objects of the tasks and subtasks, by id."""
    drafts = _drafts(fields, _find_tasks(fields), ReaderOptions())
    return {draft.task.id: draft.node for draft in drafts}


def _plan(options: ReaderOptions, fields: Fields, empty: Plan) -> Plan:
    tasks = _find_tasks(fields)
    if tasks is None:
        return empty
    drafts = _drafts(fields, tasks, options)
    if not drafts and not fields.problems.failed:
        fields.error(tasks, "no-tasks", "There is no task in this file.", "Add one.")
    for draft in drafts:
        if draft.task.kind is not ItemKind.EPIC:
            fields.report_no_files(draft.node, draft.task, _NO_FILES)
    return replace(
        empty,
        phases=ALL_AT_ONCE,
        tasks=list_tasks(fields, drafts, _spell),
    )


def _find_tasks(fields: Fields) -> Node | None:
    """Return the list of tasks: the document's own, or that of a tag."""
    root = fields.document.root
    members: dict[str, Node] = root.value if isinstance(root.value, dict) else {}
    if "tasks" in members:
        return members["tasks"]
    tags: dict[str, Node] = {
        name: tag.value["tasks"]
        for name, tag in members.items()
        if isinstance(tag.value, dict) and "tasks" in tag.value
    }
    if not tags:
        fields.error(root, "bad-value", "The document has no list of tasks.", 'Write {"tasks": …}.')
        return None
    name = _OWN_TAG if _OWN_TAG in tags else next(iter(tags))
    rest = [
        f"{shorten(tag)} ({count(len(tasks.value), 'task')})"
        for tag, tasks in tags.items()
        if tag != name and isinstance(tasks.value, list) and tasks.value
    ]
    if rest and name != _OWN_TAG:
        fields.error(
            root,
            "several-tags",
            f"None of the tags is {_OWN_TAG!r}, and several have tasks: {shorten(name)}, "
            f"{listed(rest, 5)}.",
            'Copy the tasks of a tag to a file of its own, as {"tasks": […]}.',
        )
    elif rest:
        fields.warn(
            tags[name],
            "other-tags",
            f"Only the tasks of the tag {_OWN_TAG!r} are read, not those of {listed(rest, 5)}.",
            'To run another tag, copy its tasks to a file of its own, as {"tasks": […]}.',
        )
    return tags[name]


def _drafts(fields: Fields, tasks: Node | None, options: ReaderOptions) -> list[TaskDraft]:
    drafts = []
    for node in fields.listed(tasks):
        given = fields.object(node, _TASK, "a task")
        own = _draft(fields, node, given, "", options)
        parts = [
            _subtask(fields, part, own.task, options)
            for part in fields.listed(given.get("subtasks"))
        ]
        whole = replace(own.task, priority=_priority(fields, given.get("priority")))
        if parts:
            # The subtasks are all of its work; a file of its own would only delay them.
            whole = replace(whole, kind=ItemKind.EPIC, files=(), agent=None)
        drafts += [replace(part, task=_inherit(part.task, whole, options)) for part in parts]
        drafts.append(replace(own, task=whole))
    return drafts


def _subtask(fields: Fields, node: Node, whole: PlanTask, options: ReaderOptions) -> TaskDraft:
    given = fields.object(node, _SUBTASK, "a subtask")
    draft = _draft(fields, node, given, f"{whole.id}.", options)
    return replace(draft, task=replace(draft.task, parent=whole.id))


def _inherit(part: PlanTask, whole: PlanTask, options: ReaderOptions) -> PlanTask:
    """Give a subtask the priority and context of its task, and a status that ends or holds it."""
    context = f"Part of {whole.id} {whole.text}\n{whole.details}".strip()
    part = replace(part, priority=whole.priority, details=f"{context}\n\n{part.details}".strip())
    is_held = whole.status is State.BLOCKED and whole.id not in options.take
    if part.settled or part.status is State.BLOCKED or not (whole.settled or is_held):
        return part
    note = f"{whole.id} is held back" if is_held else ""
    return replace(part, status=whole.status, note=note)


def _draft(
    fields: Fields, node: Node, given: Mapping[str, Node], lead: str, options: ReaderOptions
) -> TaskDraft:
    line, column = fields.place(node)
    id = fields.word(given["id"]) if "id" in given else ""
    if "id" not in given and given:
        fields.error(node, "bad-value", "A task needs an id.", 'Write "id": 1.')
    id = id if id.startswith(lead) else lead + id
    title = fields.text(given.get("title"))
    description = fields.text(given.get("description"))
    text = " ".join((title or description.partition("\n")[0]).split())
    if not text and given:
        fields.error(node, "empty-task", "It has no title.", "Say in `title` what is to be done.")
    status, note = _status(fields, given, id, options)
    extra = _metadata(fields, given)
    attributes = fields.attributes(extra)
    if "agent" not in extra and task_line.asks_for_a_person(text):
        attributes["agent"] = HUMAN
    strategy = fields.text(given.get("test_strategy")).strip()
    paragraphs = (description if title else "", fields.text(given.get("details")))
    task = PlanTask(
        id=id,
        phase="",
        label=id,
        text=text,
        line=line,
        column=column,
        details="\n\n".join(part for each in paragraphs if (part := each.strip())),
        criteria=(strategy,) if strategy else (),
        status=status,
        note=note,
        files=() if attributes.get("agent") == HUMAN else fields.files(extra.get("files")),
        named=True,
        **attributes,
    )
    return TaskDraft(task=task, node=node, depends=fields.listed(given.get("dependencies")))


def _metadata(fields: Fields, given: Mapping[str, Node]) -> dict[str, Any]:
    """Return the author's own fields, among them `files`, which may also stand in the task."""
    node = given.get("metadata")
    own = node.value if node is not None and isinstance(node.value, dict) else {}
    if node is not None and node.value is not None and not isinstance(node.value, dict):
        fields.warn(node, "bad-value", "The metadata is no object.", 'Write {"files": […]}.')
    return {**({"files": given["files"]} if "files" in given else {}), **own}


def _status(
    fields: Fields, given: Mapping[str, Node], id: str, options: ReaderOptions
) -> tuple[State, str]:
    """Return the state of a task and why it is held back; a status of the author's own holds it."""
    node = given.get("status")
    word = fields.text(node) or "pending"
    state = STATUSES.get(word.lower().replace("_", "-").replace(" ", "-"), State.BLOCKED)
    if state is not State.BLOCKED:
        return state, ""
    note = f"its status is {shorten(word)}"
    if node is not None and id not in options.take:
        fields.warn(
            node,
            "held-back",
            f"{shorten(id)} is held back: {note}; it waits for you.",
            f"Change its status to pending, or run it with `--take {shorten(id)}`.",
        )
    return state, note


def _priority(fields: Fields, node: Node | None) -> Priority:
    word = fields.text(node).lower() or "medium"
    if node is not None and word not in _PRIORITIES:
        fields.error(
            node,
            "bad-value",
            f"The priority {shorten(word)!r} is not known.",
            fields.problems.suggest(word, _PRIORITIES, "Write high, medium or low."),
        )
    return _PRIORITIES.get(word, Priority.NORMAL)


def _spell(draft: TaskDraft, word: str) -> tuple[str, ...]:
    """List the ids that a dependency may mean: `2` in a subtask of 5 is 5.2 before it is 2."""
    sibling = f"{draft.task.parent}.{word}"
    return (word,) if draft.task.parent is None or sibling == draft.task.id else (sibling, word)
