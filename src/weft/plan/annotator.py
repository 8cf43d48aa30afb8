"""Annotations proposed for a plan: its files, needs and parallel phases.

The evidence is the files and tasks that a task mentions, the order that its text states, and verbs
such as "integrate". A phase is called parallel only if the files of all its tasks are known and at
least two of them may run at once. A plan.md with annotations is left alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from weft.paths import conflicts, normalise
from weft.plan import markdown, mentions, prd, source
from weft.plan.compiler import compile
from weft.plan.json_document import Change, Fields, Node, edit_objects, find_spelling
from weft.plan.mentions import Repository, StatedOrder, find_stated_order
from weft.plan.plan_records import ItemKind, Phase, Plan, PlanTask, ReaderOptions, Source
from weft.plan.problems import Problems

_JOINING: Final = ("integrate ", "wire ", "connect ", "hook up ", "combine ", "end-to-end ")
_PARALLEL = re.compile(r"^[ ]*\[P\]|(?<=[ ])\[P\](?=[ ])")
_BREAKS = re.compile(r'-->|["\x00-\x1f\x7f]')
# Beyond so many tasks in a phase, comparing them in pairs takes too long; it is left as it is.
_MOST_COMPARED: Final = 300


Predicted = Mapping[str, tuple[str, ...]]
"""The predicted files of tasks, by id."""

NO_FILES_PREDICTED: Final[Predicted] = MappingProxyType({})


class TaskAdvice(Struct, frozen=True, kw_only=True):
    id: str
    files: tuple[str, ...]  # empty: not known
    depends: tuple[str, ...]  # as they are to be written: task1
    reads: tuple[str, ...] = ()  # files that its text only refers to
    predicted: bool = False  # its text names none: the files are predicted


class PhaseAdvice(Struct, frozen=True, kw_only=True):
    label: str
    parallel: bool
    reason: str  # a sentence for the author
    tasks: tuple[TaskAdvice, ...]


class Advice(Struct, frozen=True, kw_only=True):
    phases: tuple[PhaseAdvice, ...]
    data: bytes  # the file with the annotations in it
    left_alone: bool  # because it has annotations already


def annotate(
    name: str,
    data: bytes,
    repository: Iterable[str] | None = None,
    predicted: Predicted = NO_FILES_PREDICTED,
) -> Advice:
    """Propose annotations for a plan.md that has none; `predicted` serve texts without files."""
    plan = markdown.read(name, data, ReaderOptions()).plan
    text = source.decode(data, Problems(name))
    if text is None or _is_annotated(plan):
        return Advice(phases=(), data=data, left_alone=True)
    known = Repository(repository)
    members: dict[str, list[PlanTask]] = {phase.label: [] for phase in plan.phases}
    for task in plan.tasks:
        members[task.phase].append(task)
    advice = [_look_at(phase, members[phase.label], known, predicted) for phase in plan.phases]
    return Advice(
        phases=tuple(advice), data=source.encode(_annotated(text, plan, advice)), left_alone=False
    )


def describe_task(task: PlanTask, repository: Repository, predicted: Predicted) -> TaskAdvice:
    """Return the files that the text of a task speaks of, or that are predicted for it."""
    if task.manual:
        return TaskAdvice(id=task.id, files=(), depends=())
    # A path of the repository may hold marks that end a comment or a quoted name.
    known = tuple(path for path in predicted.get(task.id, ()) if not _BREAKS.search(path))
    spoken = spoken_text(task)
    named = mentions.find_files(spoken, repository)
    return TaskAdvice(
        id=task.id,
        files=named or known,
        depends=(),
        reads=mentions.find_references(spoken, repository),
        predicted=not named and bool(known),
    )


def spoken_text(task: PlanTask) -> str:
    return "\n".join((task.text, task.details, *task.criteria))


def _is_annotated(plan: Plan) -> bool:
    return any(phase.annotated for phase in plan.phases) or any(
        (task.files is not None and not task.manual)
        or task.depends
        or task.depends_phases
        or task.group
        for task in plan.tasks
    )


def _look_at(
    phase: Phase, tasks: Sequence[PlanTask], repository: Repository, predicted: Predicted
) -> PhaseAdvice:
    advice = [describe_task(task, repository, predicted) for task in tasks]
    orders = _read_orders(tasks)
    by_id = {task.id: task for task in tasks}
    parallel, reason = _judge(tasks, advice, orders)
    if parallel and not phase.heading:
        parallel, reason = False, "It has no heading to put an annotation under."
    if parallel:
        # A sequential phase has an order; saying part of it again would only confuse.
        advice = [
            replace(each, depends=tuple(f"task{by_id[id].label}" for id in orders[each.id].needs))
            for each in advice
        ]
    return PhaseAdvice(label=phase.label, parallel=parallel, reason=reason, tasks=tuple(advice))


def _read_orders(tasks: Sequence[PlanTask]) -> dict[str, StatedOrder]:
    """Return the order that each task states, or that its place in a list with [P] states."""
    by_name = {name: task.id for task in tasks for name in (task.label.upper(), task.id.upper())}
    orders: dict[str, StatedOrder] = {}
    marks = [bool(_PARALLEL.search(task.text)) for task in tasks]
    marked = _order_by_marks([task.id for task in tasks], marks)
    for place, task in enumerate(tasks):
        earlier = [each.id for each in tasks[:place] if not each.manual]
        if task.manual:
            orders[task.id] = StatedOrder()
            continue
        stated = find_stated_order(spoken_text(task), by_name, earlier)
        spoken = mentions.find_tasks(spoken_text(task))
        needs = {id: None for id in stated.needs if id != task.id}
        # A task that speaks of an earlier task may build on it.
        needs.update({by_name[n]: None for n in spoken if by_name.get(n) in earlier})
        if task.text.casefold().startswith(_JOINING):
            needs.update(dict.fromkeys(earlier))
        needs.update(dict.fromkeys(marked.get(task.id, ())))
        ordered = tuple(each.id for each in tasks if each.id in needs)
        orders[task.id] = replace(stated, needs=ordered)
    return orders


def _order_by_marks(ids: Sequence[str], marks: Sequence[bool]) -> dict[str, list[str]]:
    """Let only neighbours marked [P] run together, if any task is marked so."""
    if not any(marks):
        return {}
    needs: dict[str, list[str]] = {}
    before: list[str] = []
    group: list[str] = []
    was_marked = False
    for id, mark in zip(ids, marks, strict=True):
        if not (mark and was_marked):
            before, group = group, []
        group.append(id)
        was_marked = mark
        needs[id] = list(before)
    return needs


def _judge(
    tasks: Sequence[PlanTask], advice: Sequence[TaskAdvice], orders: Mapping[str, StatedOrder]
) -> tuple[bool, str]:
    work = [each for task, each in zip(tasks, advice, strict=True) if not task.manual]
    if len(work) < 2:
        return False, "There is only one task to run."
    if len(work) > _MOST_COMPARED:
        return False, "It has too many tasks to compare them all."
    unknown = [each.id for each in work if not each.files]
    if unknown:
        return False, f"The files of {_listed(unknown)} are not known."
    for id, order in orders.items():
        if order.unclear:
            return False, f"{id} says {order.unclear!r}, which names no task of the phase."
    behind = _reach(orders)
    if any(id in behind[id] for id in behind):
        return False, "Its tasks need each other in a circle."
    free = [
        (a.id, b.id)
        for place, b in enumerate(work)
        for a in work[:place]
        if a.id not in behind[b.id] and b.id not in behind[a.id] and not _share(a, b)
    ]
    if not free:
        return False, "Its tasks change the same files or need each other."
    able = dict.fromkeys(id for pair in free for id in pair)
    return True, f"{_listed(list(able))} change different files."


def _reach(orders: Mapping[str, StatedOrder]) -> dict[str, set[str]]:
    """Return for each task all tasks that it needs, through others too."""
    behind: dict[str, set[str]] = {}
    for id in orders:
        seen: set[str] = set()
        waiting = list(orders[id].needs)
        while waiting:
            need = waiting.pop()
            if need not in seen:
                seen.add(need)
                waiting.extend(orders[need].needs if need in orders else ())
        behind[id] = seen
    return behind


def _share(a: TaskAdvice, b: TaskAdvice) -> bool:
    return any(conflicts(normalise(x), normalise(y)) for x in a.files for y in b.files)


def _annotated(
    text: source.SourceText, plan: Plan, advice: Sequence[PhaseAdvice]
) -> source.SourceText:
    """Put the annotations in: under the heading of a phase, and under the text of a task."""
    behind: dict[int, list[str]] = {}
    for phase, each in zip(plan.phases, advice, strict=True):
        if each.parallel and phase.heading:
            behind.setdefault(phase.line, []).append("<!-- execution: parallel -->")
    by_task = {task.id: task for each in advice for task in each.tasks}
    for task in plan.tasks:
        own = by_task[task.id]
        for key, values in (("files", own.files), ("reads", own.reads), ("depends", own.depends)):
            _add_note(text, task, key, values, behind)
    return insert_lines(text, behind)


def _add_note(
    text: source.SourceText,
    task: PlanTask,
    key: str,
    values: Sequence[str],
    behind: dict[int, list[str]],
) -> None:
    if values:
        # The column at which the text of the task begins, as Markdown counts it.
        line = text.lines[task.line - 1]
        indent = " " * len(line[: line.find("[")].expandtabs(4))
        note = f"{indent}<!-- {key}: {', '.join(map(quote_path, values))} -->"
        behind.setdefault(task.last_line, []).append(note)


def write_files(plan: Plan, data: bytes, files: Predicted) -> bytes:
    """Put the files of these tasks under their texts in a plan.md."""
    text = source.decode(data, Problems(plan.name))
    assert text is not None, "the plan was read before"
    behind: dict[int, list[str]] = {}
    for task in plan.tasks:
        if task.id in files and task.files is None:
            names = [path for path in files[task.id] if not _BREAKS.search(path)]
            _add_note(text, task, "files", names, behind)
    return source.encode(insert_lines(text, behind))


def insert_lines(text: source.SourceText, behind: Mapping[int, Sequence[str]]) -> source.SourceText:
    """Put lines behind the lines of these numbers, counted from 1."""
    end = next((each for each in text.ends if each), b"\n")
    raw: list[str] = []
    ends: list[bytes] = []
    for number, (line, own_end) in enumerate(zip(text.raw, text.ends, strict=True), 1):
        raw.append(line)
        added = behind.get(number, [])
        ends.append(own_end or (end if added else b""))
        for extra in added:
            raw.append(extra)
            ends.append(end)
        if added and not own_end:
            ends[-1] = b""
    return replace(text, raw=tuple(raw), ends=tuple(ends))


def quote_path(path: str) -> str:
    return f'"{path}"' if any(mark in path for mark in ",; ") else path


def _listed(ids: Sequence[str]) -> str:
    return ids[0] if len(ids) == 1 else f"{', '.join(ids[:-1])} and {ids[-1]}"


_METADATA: Final = "\0metadata"  # no id ends so


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
    now = prd.read_as(plan.source, plan.name, changed, ReaderOptions()).plan
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
    objects = prd.find_objects(kind, fields)
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
