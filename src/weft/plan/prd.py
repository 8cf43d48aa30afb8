"""Reader of prd.json: stories and their subtasks.

A malformed file is refused as a whole, with a JSON pointer to each problem. A story without
subtasks is a task. A story with subtasks stands for them: it comes after them, holds all their
files, and lands them together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from weft.model import HUMAN, State
from weft.plan import source, task_line
from weft.plan.attributes import JSON_KEYS
from weft.plan.json_document import JsonDocument, Node, NotJSON
from weft.plan.json_fields import Fields, spellings
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

_ALIASES: Final = {
    "dependencies": "depends_on",
    "depends": "depends_on",
    "userstories": "stories",
    "project": "title",
}
_ROOT: Final = spellings(("title", "description", "stories"), _ALIASES)
_SUBTASK_KEYS: Final = (
    "id",
    "title",
    "description",
    "files",
    "depends_on",
    "passes",
    "skipped",
    *JSON_KEYS,
)
_SUBTASK: Final = spellings(_SUBTASK_KEYS, _ALIASES)
_STORY: Final = spellings(
    (*_SUBTASK_KEYS, "acceptance_criteria", "priority", "subtasks", "parallel_group"), _ALIASES
)
_NO_FILES: Final = 'Add "files": […], or "files": "none" if it changes nothing.'
_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz"


def read(name: str, data: bytes, _options: ReaderOptions) -> ParsedPlan:
    """Read a prd.json; for any bytes, return a plan and its problems."""
    problems = Problems(name)
    plan = Plan(name=name, source=Source.PRD)
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
            plan = _plan(fields, plan)
    if problems.failed:
        plan = Plan(name=name, source=Source.PRD, title=plan.title)
    return ParsedPlan(plan=plan, problems=problems.sorted())


class _StoryDraft(Struct, frozen=True, kw_only=True):
    """A task with its id; its references are not resolved yet."""

    task: PlanTask
    node: Node
    depends: Sequence[Node]


def _plan(fields: Fields, empty: Plan) -> Plan:
    for node in fields.document.doubled:
        fields.error(node, "repeated-key", "This key was given before.", "Keep one of the two.")
    top = fields.document.root
    if isinstance(top.value, list):  # ralph's plans may be the bare list of stories
        root: dict[str, Node] = {"stories": top}
    else:
        root = fields.object(top, _ROOT, "the document")
    stories = root.get("stories")
    if stories is None or not isinstance(stories.value, list):
        fields.error(
            stories or fields.document.root,
            "bad-value",
            "The document has no list of stories.",
            'Write {"title": …, "stories": [{"id": …, "title": …}]}.',
        )
        return empty
    if not stories.value:
        fields.error(stories, "no-tasks", "There is no story in this file.", "Add one.")
    drafts = [draft for node in stories.value for draft in _story(fields, node)]
    by_id: dict[str, PlanTask] = {}
    for draft in drafts:
        if draft.task.id in by_id and draft.task.id:
            fields.error(
                draft.node,
                "duplicate-id",
                f"The id {shorten(draft.task.id)!r} is taken, on line {by_id[draft.task.id].line}.",
                "Give each story and subtask its own id.",
            )
        by_id.setdefault(draft.task.id, draft.task)
    return replace(
        empty,
        title=fields.text(root.get("title")),
        description=fields.text(root.get("description")),
        phases=(Phase(label="", title="", line=1, parallel=True, depends=()),),
        tasks=tuple(_resolved(fields, draft, by_id) for draft in drafts),
    )


def _story(fields: Fields, node: Node) -> list[_StoryDraft]:
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
    return [*parts, replace(own, task=_whole(own.task, [part.task for part in parts]))]


def _whole(story: PlanTask, parts: Sequence[PlanTask]) -> PlanTask:
    """Add the files of the subtasks to the story, which holds them after the subtasks."""
    files: tuple[str, ...] | None = None
    if story.files is not None or all(part.files is not None for part in parts):
        patterns = [story.files or (), *(part.files or () for part in parts)]
        files = tuple(dict.fromkeys(file for each in patterns for file in each))
    return replace(story, kind=ItemKind.STORY, files=files)


def _subtask(fields: Fields, node: Node, place: int, story: PlanTask) -> _StoryDraft:
    part = fields.object(node, _SUBTASK, "a subtask")
    id = fields.word(part["id"]) if "id" in part else _letters(place)
    if not id.startswith(story.id + "."):
        id = f"{story.id}.{id}"
    draft = _draft(fields, node, part, id)
    task = draft.task
    return replace(
        draft,
        task=replace(
            task,
            kind=ItemKind.SUBTASK,
            parent=story.id,
            priority=story.priority,
            criteria=tuple(f"{story.id} as a whole: {each}" for each in story.criteria),
            agent=task.agent or story.agent,
            # It cannot leave the files of its story, if those are known.
            files=story.files if task.files is None else task.files,
            status=story.status if story.settled else task.status,
        ),
    )


def _draft(fields: Fields, node: Node, given: Mapping[str, Node], id: str) -> _StoryDraft:
    line, column = fields.place(node)
    title = fields.text(given.get("title"))
    description = fields.text(given.get("description"))
    text = " ".join((title or description.partition("\n")[0]).split())
    if not text and given:
        fields.error(node, "empty-task", "It has no title.", "Say in `title` what is to be done.")
    attributes = fields.attributes(given)
    if attributes.get("agent") is None and task_line.asks_for_a_person(text):
        attributes["agent"] = HUMAN
    task = PlanTask(
        id=id,
        phase="",
        label=id,
        text=text,
        line=line,
        column=column,
        details=(description if title else description.partition("\n")[2]).strip(),
        criteria=tuple(fields.strings(given.get("acceptance_criteria"))),
        status=_status(fields, given),
        files=() if attributes.get("agent") == HUMAN else fields.files(given.get("files")),
        group=fields.word(given["parallel_group"]) if "parallel_group" in given else None,
        priority=fields.priority(given.get("priority")),
        named=True,
        **attributes,
    )
    return _StoryDraft(task=task, node=node, depends=fields.listed(given.get("depends_on")))


def _resolved(fields: Fields, draft: _StoryDraft, by_id: Mapping[str, PlanTask]) -> PlanTask:
    references = []
    for node in draft.depends:
        word = fields.word(node)
        sibling = f"{draft.task.parent}.{word}"
        meant = word if word in by_id else sibling if sibling in by_id else None
        if meant is not None:
            line, column = fields.place(node)
            references.append(Reference(to=meant, line=line, column=column))
        elif word:
            fields.error(
                node,
                "unknown-task",
                f"There is no story or subtask {shorten(word)!r}.",
                fields.problems.suggest(word, by_id, "Write the id of a story."),
            )
    return replace(draft.task, depends=tuple(references))


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
