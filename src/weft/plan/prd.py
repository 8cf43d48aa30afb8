"""Reader of prd.json, and of task-master's tasks.json as a table over it.

Both are objects with ids that need each other. A story without subtasks is a task. A story with
subtasks stands for them: it comes after them, holds all their files, and lands them together.
A task of task-master with subtasks is only their end: each of them lands alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from weft.formats import count, listed
from weft.model import HUMAN, State
from weft.plan import source, task_line
from weft.plan.attributes import JSON_ATTRIBUTES
from weft.plan.json_document import Fields, JsonDocument, Node, NotJSON, spellings
from weft.plan.plan_records import (
    ItemKind,
    ParsedPlan,
    Phase,
    Plan,
    PlanTask,
    ReaderOptions,
    Reference,
    Source,
)
from weft.plan.problems import Problems, shorten
from weft.plan.stories import make_part, make_story

ALIASES: Final = {
    "dependencies": "depends_on",
    "depends": "depends_on",
    "userstories": "stories",
    "project": "title",
}
"""Other names of keys; camelCase is read too."""
ROOT_KEYS: Final = (
    "title",  # of the plan
    "description",  # its prose, which every agent reads before its task
    "stories",  # its tasks; required
)
SUBTASK_KEYS: Final = (
    "id",  # a name of its own; subtasks without one are called a, b, …
    "title",  # a sentence
    "description",  # more about it, for the agent
    "files",  # paths and globs that it changes; "none": it changes nothing
    "depends_on",  # ids of stories and subtasks that come first
    "passes",  # true: it is done; weft sets it when it has landed
    "skipped",  # true: it is left out, and counts as done
    "notes",  # yours, for the agent; the line that begins with `weft: ` is weft's
    *JSON_ATTRIBUTES,
)
STORY_KEYS: Final = (
    *SUBTASK_KEYS,
    "acceptance_criteria",  # sentences for the agent and the judge
    "priority",  # critical, high, normal, low or background, or 0 to 4
    "subtasks",  # parts that run in parallel and land together
    "parallel_group",  # a number: after the groups with lower numbers; a word: start together
)
_TASK_MASTER_KEYS: Final = (
    *("id", "title", "description", "details", "files", "depends_on", "status", "metadata"),
    *("acceptance_criteria", "priority", "subtasks"),
)
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
"""The statuses of task-master. Work under review or deferred is held back: a person has it."""

_OWN_TAG: Final = "master"
_OURS: Final = "weft: "  # begins weft's own line of a story's notes
_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz"


class _Format(Struct, frozen=True, kw_only=True):
    """The words in which a format differs from the other."""

    kind: Source
    whole: str  # the name of an object in the list
    whole_keys: Mapping[str, str]
    part_keys: Mapping[str, str]
    id: str  # an example
    no_files: str  # the advice for a task without files


_ROOT: Final = spellings(ROOT_KEYS, ALIASES)
_STRATEGY: Final = {"dependencies": "depends_on", "teststrategy": "acceptance_criteria"}
_FORMATS: Final = {
    Source.PRD: _Format(
        kind=Source.PRD,
        whole="a story",
        whole_keys=spellings(STORY_KEYS, ALIASES),
        part_keys=spellings(SUBTASK_KEYS, ALIASES),
        id='"S-1"',
        no_files='Add "files": […], or "files": "none" if it changes nothing.',
    ),
    Source.TASK_MASTER: _Format(
        kind=Source.TASK_MASTER,
        whole="a task",
        whole_keys=spellings(_TASK_MASTER_KEYS, _STRATEGY),
        part_keys=spellings(_TASK_MASTER_KEYS[:-2], _STRATEGY),
        id="1",
        no_files='Add "metadata": {"files": […]}, or "files": "none" in it.',
    ),
}
FORMATS: Final = frozenset(_FORMATS)


class TaskDraft(Struct, frozen=True, kw_only=True):
    """A task with its id; its references are not resolved yet."""

    task: PlanTask
    node: Node
    depends: Sequence[Node]


def read_as(kind: Source, name: str, data: bytes, options: ReaderOptions) -> ParsedPlan:
    """Read a document; refuse it as a whole, with a JSON pointer to each problem."""
    problems = Problems(name)
    plan = Plan(name=name, source=kind)
    text = source.decode(data, problems)
    if text is not None:
        joined = "\n".join(text.lines)
        try:
            fields = Fields(JsonDocument(joined), problems)
        except NotJSON as wrong:
            at = source.Positions(joined).of(wrong.offset)
            problems.error(at, "not-json", f"{wrong.message}.", "Write one JSON object.", "")
        else:
            for node in fields.document.doubled:
                fields.error(
                    node, "repeated-key", "This key was given before.", "Keep one of the two."
                )
            plan = _plan(_FORMATS[kind], fields, plan, options)
    if problems.failed:
        plan = Plan(name=name, source=kind, title=plan.title)
    return ParsedPlan(plan=plan, problems=problems.sorted())


def find_objects(kind: Source, fields: Fields) -> dict[str, Node]:
    """Return the objects of the stories, tasks and subtasks, by id."""
    wholes = _find_wholes(_FORMATS[kind], fields)[1]
    drafts = _drafts(_FORMATS[kind], fields, wholes, ReaderOptions())
    return {draft.task.id: draft.node for draft in drafts}


def join_notes(notes: str, own: str) -> str:
    """Replace weft's line of the notes of a story; the author's lines stay."""
    ours = [line for line in notes.split("\n") if line.startswith(_OURS)]
    if ours == ([_OURS + own] if own else []):
        return notes
    kept = notes if not ours else _author_notes(notes)
    return "\n".join(line for line in (kept, own and _OURS + own) if line)


def _author_notes(notes: str) -> str:
    return "\n".join(line for line in notes.split("\n") if not line.startswith(_OURS))


def _find_wholes(form: _Format, fields: Fields) -> tuple[dict[str, Node], Node | None]:
    """Return the fields of the plan, and its list of stories or tasks."""
    top = fields.document.root
    if form.kind is Source.TASK_MASTER:
        return {}, _find_tasks(fields)
    if isinstance(top.value, list):  # ralph's plans may be the bare list of stories
        return {}, top
    root = fields.object(top, _ROOT, "the document")
    stories = root.get("stories")
    if stories is not None and isinstance(stories.value, list):
        return root, stories
    fields.error(
        stories or top,
        "bad-value",
        "The document has no list of stories.",
        'Write {"title": …, "stories": [{"id": …, "title": …}]}, or {"tasks": […]} as '
        "task-master does.",
    )
    return root, None


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
    cure = 'To run another tag, copy its tasks to a file of its own, as {"tasks": […]}.'
    if rest and name != _OWN_TAG:
        message = f"None of the tags is {_OWN_TAG!r}, and several have tasks: {shorten(name)}"
        fields.error(root, "several-tags", f"{message}, {listed(rest, 5)}.", cure)
    elif rest:
        message = (
            f"Only the tasks of the tag {_OWN_TAG!r} are read, not those of {listed(rest, 5)}."
        )
        fields.warn(tags[name], "other-tags", message, cure)
    return tags[name]


def _plan(form: _Format, fields: Fields, empty: Plan, options: ReaderOptions) -> Plan:
    root, wholes = _find_wholes(form, fields)
    if wholes is None:
        return empty
    drafts = _drafts(form, fields, wholes, options)
    if not drafts and not fields.problems.failed:
        what = form.whole.removeprefix("a ")
        fields.error(wholes, "no-tasks", f"There is no {what} in this file.", "Add one.")
    for draft in drafts:
        if draft.task.kind not in (ItemKind.STORY, ItemKind.EPIC):
            fields.report_no_files(draft.node, draft.task, form.no_files)
    tasks = _resolve(form, fields, drafts)
    return replace(
        empty,
        title=fields.text(root.get("title")),
        description=fields.text(root.get("description")),
        phases=_phases(tasks),
        tasks=tasks,
    )


def _phases(tasks: Sequence[PlanTask]) -> tuple[Phase, ...]:
    """Make a phase of each numbered group; it waits for the last open group before it."""
    members: dict[int, list[PlanTask]] = {}
    for task in tasks:
        if task.phase:
            members.setdefault(int(task.phase), []).append(task)
    phases = []
    if not tasks or not all(task.phase for task in tasks):
        phases.append(Phase(label="", title="", line=1, parallel=True, depends=()))
    before: tuple[Reference, ...] = ()
    for number in sorted(members):
        line, label = members[number][0].line, str(number)
        title = f"Group {label}"
        phases.append(
            Phase(label=label, title=title, heading=title, line=line, parallel=True, depends=before)
        )
        if not all(task.settled for task in members[number]):
            before = (Reference(to=label, line=line),)
    return tuple(phases)


def _drafts(
    form: _Format, fields: Fields, wholes: Node | None, options: ReaderOptions
) -> list[TaskDraft]:
    """Return every story or task behind its subtasks."""
    drafts = []
    for node in fields.listed(wholes):
        given = fields.object(node, form.whole_keys, form.whole)
        id = fields.word(given["id"]) if "id" in given else ""
        if "id" not in given and given:
            fields.error(
                node,
                "bad-value",
                f"{form.whole.capitalize()} needs an id.",
                f'Write "id": {form.id}.',
            )
        own = _draft(fields, node, given, id, options)
        parts = []
        for place, part in enumerate(fields.listed(given.get("subtasks"))):
            inner = fields.object(part, form.part_keys, "a subtask")
            word = fields.word(inner["id"]) if "id" in inner else _letters(place)
            part_id = word if word.startswith(f"{id}.") else f"{id}.{word}"
            parts.append(_draft(fields, part, inner, part_id, options))
        if not parts:
            drafts.append(own)
        elif form.kind is Source.PRD:
            parts = [replace(part, task=make_part(part.task, own.task)) for part in parts]
            story = make_story(own.task, [part.task for part in parts])
            drafts += [*parts, replace(own, task=story)]
        else:
            drafts += [replace(part, task=_inherit(part.task, own.task, options)) for part in parts]
            # The subtasks are all of its work; a file of its own would only delay them.
            whole = replace(own.task, kind=ItemKind.EPIC, files=(), agent=None)
            drafts.append(replace(own, task=whole))
    return drafts


def _inherit(part: PlanTask, whole: PlanTask, options: ReaderOptions) -> PlanTask:
    """Give a subtask of task-master the priority, the text and the end of its task."""
    own = make_part(part, whole)
    part = replace(part, parent=whole.id, priority=whole.priority, details=own.details)
    is_held = whole.status is State.BLOCKED and whole.id not in options.take
    if part.settled or part.status is State.BLOCKED or not (whole.settled or is_held):
        return part
    note = f"{whole.id} is held back" if is_held else ""
    return replace(part, status=whole.status, note=note)


def _draft(
    fields: Fields, node: Node, given: Mapping[str, Node], id: str, options: ReaderOptions
) -> TaskDraft:
    line, column = fields.place(node)
    title = fields.text(given.get("title"))
    description = fields.text(given.get("description"))
    paragraphs = [description if title else description.partition("\n")[2]]
    paragraphs.append(fields.text(given.get("details")))
    notes = given.get("notes")
    if notes is not None and isinstance(notes.value, str):
        paragraphs.append(_author_notes(fields.text(notes)))
    text = " ".join((title or description.partition("\n")[0]).split())
    if not text and given:
        fields.error(node, "empty-task", "It has no title.", "Say in `title` what is to be done.")
    extra = {**given, **_metadata(fields, given.get("metadata"))}
    attributes = fields.attributes(extra)
    if attributes.get("agent") is None and task_line.asks_for_a_person(text):
        attributes["agent"] = HUMAN
    group = fields.word(given["parallel_group"]) if "parallel_group" in given else None
    numbered = group is not None and group.isdecimal() and group.isascii() and len(group) < 10
    status, note = _status(fields, given, id, options)
    task = PlanTask(
        id=id,
        phase=str(int(group)) if group and numbered else "",
        label=id,
        text=text,
        line=line,
        column=column,
        details="\n\n".join(part for each in paragraphs if (part := each.strip())),
        criteria=tuple(fields.strings(given.get("acceptance_criteria"))),
        status=status,
        note=note,
        files=() if attributes.get("agent") == HUMAN else fields.files(extra.get("files")),
        group=None if numbered else group,
        priority=fields.priority(given.get("priority")),
        named=True,
        **attributes,
    )
    return TaskDraft(task=task, node=node, depends=fields.listed(given.get("depends_on")))


def _metadata(fields: Fields, node: Node | None) -> dict[str, Any]:
    """Return the author's own fields of a task of task-master."""
    if node is None or node.value is None or isinstance(node.value, dict):
        return node.value or {} if node is not None else {}
    fields.warn(node, "bad-value", "The metadata is no object.", 'Write {"files": […]}.')
    return {}


def _status(
    fields: Fields, given: Mapping[str, Node], id: str, options: ReaderOptions
) -> tuple[State, str]:
    """Return the state of a task and why it is held back; a status of the author's own holds it."""
    passes, skipped = fields.flag(given.get("passes")), fields.flag(given.get("skipped"))
    if passes or skipped:
        return State.SKIPPED if skipped else State.DONE, ""
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


def _resolve(form: _Format, fields: Fields, drafts: Sequence[TaskDraft]) -> tuple[PlanTask, ...]:
    """Resolve the references of the drafts."""
    by_id: dict[str, PlanTask] = {}
    for draft in drafts:
        if draft.task.id in by_id and draft.task.id:
            fields.error(
                draft.node,
                "duplicate-id",
                f"The id {shorten(draft.task.id)!r} is taken, on line {by_id[draft.task.id].line}.",
                "Give each of them its own id.",
            )
        by_id.setdefault(draft.task.id, draft.task)
    tasks = []
    for draft in drafts:
        references = []
        for node in draft.depends:
            word = fields.word(node)
            # `2` in subtask 5.1 of task-master is 5.2 before it is 2.
            names = [word, f"{draft.task.parent}.{word}"]
            if form.kind is Source.TASK_MASTER and names[1] != draft.task.id:
                names.reverse()
            meant = next((id for id in names if id in by_id), None)
            if meant is not None:
                line, column = fields.place(node)
                references.append(Reference(to=meant, line=line, column=column))
            elif word:
                fields.error(
                    node,
                    "unknown-task",
                    f"{shorten(draft.task.id)} depends on {shorten(word)!r}, "
                    "which is not in this file.",
                    fields.problems.suggest(word, by_id, "Write an id of this file."),
                )
        tasks.append(replace(draft.task, depends=tuple(references)))
    return tuple(tasks)


def _letters(place: int) -> str:
    """Return a, b, … z, aa, ab, …"""
    letters = ""
    place += 1
    while place:
        place, letter = divmod(place - 1, len(_LETTERS))
        letters = _LETTERS[letter] + letters
    return letters
