"""Files and needs proposed for the stories of a prd.json and the tasks of a tasks.json.

Only work without files gets files; its stated order goes with them, because stories with files of
their own run at the same time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Final

from msgspec.structs import replace

from weft.plan import prd, task_master
from weft.plan.annotator import (
    NO_FILES_PREDICTED,
    Advice,
    PhaseAdvice,
    Predicted,
    TaskAdvice,
    describe_task,
    spoken_text,
)
from weft.plan.compiler import compile
from weft.plan.json_document import Node
from weft.plan.json_edits import Change, edit_objects, find_spelling
from weft.plan.json_fields import Fields
from weft.plan.mentions import Repository
from weft.plan.plan_records import ItemKind, Plan, PlanTask, ReaderOptions, Source
from weft.plan.stated_order import find_stated_order

_METADATA: Final = "\0metadata"  # no id ends so
_OBJECTS: Final = {Source.PRD: prd.find_objects, Source.TASK_MASTER: task_master.find_objects}
_READERS: Final = {Source.PRD: prd.read, Source.TASK_MASTER: task_master.read}
FORMATS: Final = frozenset(_OBJECTS)


def annotate_json(
    plan: Plan,
    data: bytes,
    repository: Iterable[str] | None = None,
    predicted: Predicted = NO_FILES_PREDICTED,
) -> Advice:
    """Propose files for the work that names none, and the order that its text states."""
    known = Repository(repository)
    open_tasks = [
        task
        for task in plan.tasks
        if not task.settled and task.kind not in (ItemKind.STORY, ItemKind.EPIC)
    ]
    without = [task for task in open_tasks if task.files is None]
    if not without:
        return Advice(phases=(), data=data, left_alone=True)
    advice = [_advise(task, plan, known, predicted) for task in without]
    proposed = {each.id: each for each in advice if each.files}

    changed = _write(plan, data, proposed)
    now = _READERS[plan.source](plan.name, changed, ReaderOptions()).plan
    parallel = bool(proposed) and compile(now).width > 1
    named = sum(not each.predicted for each in proposed.values())
    reason = f"{named} of {len(without)} without files name them in their text."
    if named < len(proposed):
        reason += f" The files of {len(proposed) - named} are predicted."
    if proposed and not parallel:
        reason += " They need each other."
    phase = PhaseAdvice(label="", parallel=parallel, reason=reason, tasks=tuple(advice))
    return Advice(phases=(phase,), data=changed, left_alone=False)


def write_json_files(plan: Plan, data: bytes, files: Predicted) -> bytes:
    """Put the files of these tasks into their objects."""
    own = {
        task.id: TaskAdvice(id=task.id, files=files[task.id], depends=())
        for task in plan.tasks
        if task.id in files and task.files is None
    }
    return _write(plan, data, own)


def _write(plan: Plan, data: bytes, proposed: Mapping[str, TaskAdvice]) -> bytes:
    def list_changes(id: str, members: Mapping[str, Node]) -> Iterator[Change]:
        own = proposed.get(id.removesuffix(_METADATA))
        if own is not None:
            yield from _list_changes(plan.source, own, members, is_metadata=id.endswith(_METADATA))

    return edit_objects(plan.name, data, partial(_find_objects, plan.source), list_changes)[0]


def _advise(task: PlanTask, plan: Plan, repository: Repository, predicted: Predicted) -> TaskAdvice:
    ids = [each.id for each in plan.tasks]
    by_name = {id: id for id in ids}
    siblings = {
        id.removeprefix(f"{task.parent}."): id
        for id in ids
        if task.parent is not None and id.startswith(f"{task.parent}.")
    }
    names: Mapping[str, str] = {**by_name, **siblings}
    place = ids.index(task.id)
    stated = find_stated_order(spoken_text(task), names, ids[:place])
    own = describe_task(task, repository, predicted)
    if stated.unclear:
        return replace(own, files=())
    given = {reference.to for reference in task.depends} | {task.id, task.parent}
    depends = tuple(id for id in stated.needs if id not in given)
    return replace(own, depends=depends)


def _find_objects(kind: Source, fields: Fields) -> dict[str, Node]:
    """Return the objects of the tasks, and those of their metadata."""
    objects = _OBJECTS[kind](fields)
    own = {id: node.value for id, node in objects.items() if isinstance(node.value, dict)}
    metadata = {
        id + _METADATA: members[spelling]
        for id, members in own.items()
        if kind is Source.TASK_MASTER and (spelling := find_spelling(members, "metadata"))
    }
    return {**objects, **metadata}


def _list_changes(
    kind: Source, own: TaskAdvice, members: Mapping[str, Node], *, is_metadata: bool
) -> Iterator[Change]:
    files = ("files", list(own.files))
    if is_metadata:
        yield files
        return
    if own.depends:
        spelling = next(
            (each for each in members if each.replace("_", "").lower() in _NEEDS),
            "depends_on" if kind is Source.PRD else "dependencies",
        )
        present = members[spelling].value if spelling in members else None
        yield spelling, [*(each.value for each in present or ()), *own.depends]
    if kind is Source.PRD:
        yield files
    elif find_spelling(members, "metadata") is None:
        yield "metadata", dict([files])


_NEEDS: Final = frozenset({"dependson", "dependencies", "depends"})
