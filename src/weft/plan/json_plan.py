"""The shape that prd.json and task-master's tasks.json share: objects with ids that need others."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from weft.plan import source
from weft.plan.json_document import JsonDocument, Node, NotJSON
from weft.plan.json_fields import Fields
from weft.plan.plan_records import ParsedPlan, Phase, Plan, PlanTask, Reference, Source
from weft.plan.problems import Problems, shorten


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
