"""Stories and their subtasks: the attributes that a subtask takes over, and `part-of` in plan.md.

A story stands for its subtasks: it comes after them, holds all their files, and lands them
together.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from weft.plan.plan_records import ItemKind, PlanTask
from weft.plan.problems import Problems


def make_story(story: PlanTask, parts: Sequence[PlanTask]) -> PlanTask:
    """Add the files of the subtasks to the story, which holds them after the subtasks."""
    files: tuple[str, ...] | None = None
    if story.files is not None or all(part.files is not None for part in parts):
        patterns = [story.files or (), *(part.files or () for part in parts)]
        files = tuple(dict.fromkeys(file for each in patterns for file in each))
    return replace(story, kind=ItemKind.STORY, files=files)


def make_part(part: PlanTask, story: PlanTask) -> PlanTask:
    """Give a subtask the text of its story, and the attributes that it has not itself."""
    context = f"Part of {story.id} {story.text}\n{story.details}".strip()
    return replace(
        part,
        kind=ItemKind.SUBTASK,
        parent=story.id,
        phase=story.phase,
        details=f"{part.details}\n\n{context}".strip(),
        stages=part.stages or story.stages,
        depends_phases=(*part.depends_phases, *story.depends_phases),
        priority=story.priority,
        criteria=tuple(f"{story.id} as a whole: {each}" for each in story.criteria),
        agent=part.agent or story.agent,
        needs_labels=tuple(dict.fromkeys((*part.needs_labels, *story.needs_labels))),
        # The command passes once all subtasks are merged, which is when it is run.
        check=part.check or story.check,
        # It cannot leave the files of its story, if those are known.
        files=story.files if part.files is None else part.files,
        status=story.status if story.settled else part.status,
    )


def join_parts(tasks: Sequence[PlanTask], problems: Problems) -> tuple[PlanTask, ...]:
    """Make stories of the tasks that other tasks of a plan.md are part of, and put their parts
    before them."""
    by_id = {task.id: task for task in tasks}
    parts: dict[str, list[PlanTask]] = {}
    for task in tasks:
        if task.parent is not None and (fault := _find_fault(task, by_id)):
            problems.error(
                (task.line, task.column),
                "bad-part",
                f"{task.id} cannot be a part of {task.parent}: {fault}.",
                "Name a task of the same phase that is not itself a part.",
            )
            by_id[task.id] = replace(task, parent=None)
        elif task.parent is not None:
            parts.setdefault(task.parent, []).append(task)
    if not parts:
        return tuple(by_id[task.id] for task in tasks)
    joined: list[PlanTask] = []
    for task in tasks:
        own = [make_part(part, task) for part in parts.get(task.id, ())]
        if own:
            joined += [*own, make_story(task, own)]
        elif by_id[task.id].parent is None:
            joined.append(by_id[task.id])
    return tuple(joined)


def _find_fault(part: PlanTask, by_id: dict[str, PlanTask]) -> str:
    assert part.parent is not None
    story = by_id[part.parent]
    if story.id == part.id:
        return "that is the task itself"
    if story.parent is not None:
        return f"that is a part of {story.parent}"
    if story.manual or part.manual:
        return "a person's step has no parts and is none"
    return "" if story.phase == part.phase else "it is in another phase"
