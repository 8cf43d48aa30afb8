"""The shape that prd.json and task-master's tasks.json share: objects with ids that need others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from weft.model import HUMAN, State
from weft.plan import source, task_line
from weft.plan.attributes import JSON_ATTRIBUTES
from weft.plan.json_document import Fields, JsonDocument, Node, NotJSON, spellings
from weft.plan.plan_records import (
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


class TaskDraft(Struct, frozen=True, kw_only=True):
    """A task with its id; its references are not resolved yet."""

    task: PlanTask
    node: Node
    depends: Sequence[Node]


def read_json_plan(
    kind: Source, name: str, data: bytes, fill: Callable[[Fields, Plan], Plan]
) -> ParsedPlan:
    """Read a document; refuse it as a whole, with a JSON pointer to each problem."""
    problems = Problems(name)
    plan = Plan(name=name, source=kind)
    text = source.decode(data, problems)
    if text is not None:
        joined = "\n".join(text.lines)
        try:
            fields = Fields(JsonDocument(joined), problems)
        except NotJSON as wrong:
            line, column = source.Positions(joined).of(wrong.offset)
            problems.error(
                (line, column), "not-json", f"{wrong.message}.", "Write one JSON object.", ""
            )
        else:
            for node in fields.document.doubled:
                fields.error(
                    node, "repeated-key", "This key was given before.", "Keep one of the two."
                )
            plan = fill(fields, plan)
    if problems.failed:
        plan = Plan(name=name, source=kind, title=plan.title)
    return ParsedPlan(plan=plan, problems=problems.sorted())


def list_tasks(
    fields: Fields,
    drafts: Sequence[TaskDraft],
    spell: Callable[[TaskDraft, str], tuple[str, ...]],
) -> tuple[PlanTask, ...]:
    """Resolve the references of the drafts; `spell` lists the ids that a word may mean."""
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
            meant = next((id for id in spell(draft, word) if id in by_id), None)
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


ALL_AT_ONCE = (Phase(label="", title="", line=1, parallel=True, depends=()),)
"""The phases of a document without phases."""


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
_ROOT: Final = spellings(ROOT_KEYS, ALIASES)
_SUBTASK: Final = spellings(SUBTASK_KEYS, ALIASES)
_STORY: Final = spellings(STORY_KEYS, ALIASES)
_NO_FILES: Final = 'Add "files": […], or "files": "none" if it changes nothing.'
_OURS: Final = "weft: "  # begins weft's own line of a story's notes
_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz"


def read(name: str, data: bytes, _options: ReaderOptions) -> ParsedPlan:
    """Read a prd.json; for any bytes, return a plan and its problems."""
    return read_json_plan(Source.PRD, name, data, _plan)


def find_objects(fields: Fields) -> dict[str, Node]:
    """Return the objects of the stories and subtasks, by id."""
    return {draft.task.id: draft.node for draft in _drafts(fields, _root(fields).get("stories"))}


def join_notes(notes: str, own: str) -> str:
    """Replace weft's line of the notes of a story; the author's lines stay."""
    ours = [line for line in notes.split("\n") if line.startswith(_OURS)]
    if ours == ([_OURS + own] if own else []):
        return notes
    kept = notes if not ours else _author_notes(notes)
    return "\n".join(line for line in (kept, own and _OURS + own) if line)


def _author_notes(notes: str) -> str:
    return "\n".join(line for line in notes.split("\n") if not line.startswith(_OURS))


def _root(fields: Fields) -> dict[str, Node]:
    top = fields.document.root
    if isinstance(top.value, list):  # ralph's plans may be the bare list of stories
        return {"stories": top}
    return fields.object(top, _ROOT, "the document")


def _drafts(fields: Fields, stories: Node | None) -> list[TaskDraft]:
    return [draft for node in fields.listed(stories) for draft in _story(fields, node)]


def _plan(fields: Fields, empty: Plan) -> Plan:
    root = _root(fields)
    stories = root.get("stories")
    if stories is None or not isinstance(stories.value, list):
        fields.error(
            stories or fields.document.root,
            "bad-value",
            "The document has no list of stories.",
            'Write {"title": …, "stories": [{"id": …, "title": …}]}, or {"tasks": […]} as '
            "task-master does.",
        )
        return empty
    if not stories.value:
        fields.error(stories, "no-tasks", "There is no story in this file.", "Add one.")
    tasks = list_tasks(
        fields,
        _drafts(fields, stories),
        lambda draft, word: (word, f"{draft.task.parent}.{word}"),
    )
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
    phases = [] if tasks and all(task.phase for task in tasks) else [*ALL_AT_ONCE]
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


def _story(fields: Fields, node: Node) -> list[TaskDraft]:
    """Return a story, or its subtasks and the story after them."""
    story = fields.object(node, _STORY, "a story")
    id = fields.word(story["id"]) if "id" in story else ""
    if "id" not in story and story:
        fields.error(node, "bad-value", "A story needs an id.", 'Write "id": "S-1".')
    own = _draft(fields, node, story, id)
    parts = [
        _subtask(fields, part, place, own.task)
        for place, part in enumerate(fields.listed(story.get("subtasks")))
    ]
    if not parts:
        fields.report_no_files(own.node, own.task, _NO_FILES)
        return [own]
    for part in parts:
        fields.report_no_files(part.node, part.task, _NO_FILES)
    return [*parts, replace(own, task=make_story(own.task, [part.task for part in parts]))]


def _subtask(fields: Fields, node: Node, place: int, story: PlanTask) -> TaskDraft:
    part = fields.object(node, _SUBTASK, "a subtask")
    id = fields.word(part["id"]) if "id" in part else _letters(place)
    if not id.startswith(story.id + "."):
        id = f"{story.id}.{id}"
    draft = _draft(fields, node, part, id)
    return replace(draft, task=make_part(draft.task, story))


def _draft(fields: Fields, node: Node, given: Mapping[str, Node], id: str) -> TaskDraft:
    line, column = fields.place(node)
    title = fields.text(given.get("title"))
    description = fields.text(given.get("description"))
    rest = description if title else description.partition("\n")[2]
    notes = given.get("notes")
    if notes is not None and isinstance(notes.value, str):
        rest = f"{rest.strip()}\n\n{_author_notes(fields.text(notes))}"
    text = " ".join((title or description.partition("\n")[0]).split())
    if not text and given:
        fields.error(node, "empty-task", "It has no title.", "Say in `title` what is to be done.")
    attributes = fields.attributes(given)
    if attributes.get("agent") is None and task_line.asks_for_a_person(text):
        attributes["agent"] = HUMAN
    group = fields.word(given["parallel_group"]) if "parallel_group" in given else None
    numbered = group is not None and group.isdecimal() and group.isascii() and len(group) < 10
    task = PlanTask(
        id=id,
        phase=str(int(group)) if group and numbered else "",
        label=id,
        text=text,
        line=line,
        column=column,
        details=rest.strip(),
        criteria=tuple(fields.strings(given.get("acceptance_criteria"))),
        status=_status(fields, given),
        files=() if attributes.get("agent") == HUMAN else fields.files(given.get("files")),
        group=None if numbered else group,
        priority=fields.priority(given.get("priority")),
        named=True,
        **attributes,
    )
    return TaskDraft(task=task, node=node, depends=fields.listed(given.get("depends_on")))


def _status(fields: Fields, given: Mapping[str, Node]) -> State:
    passes, skipped = fields.flag(given.get("passes")), fields.flag(given.get("skipped"))
    if skipped:
        return State.SKIPPED
    return State.DONE if passes else State.WAITING


def _letters(place: int) -> str:
    """Return a, b, … z, aa, ab, …"""
    letters = ""
    place += 1
    while place:
        place, letter = divmod(place - 1, len(_LETTERS))
        letters = _LETTERS[letter] + letters
    return letters
