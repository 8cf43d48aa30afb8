"""Annotations proposed for a plan.md: its files, needs and parallel phases.

The evidence is the files and tasks that a task mentions, and verbs such as "integrate". A phase is
called parallel only if the files of all its tasks are known and at least two of them may run at
once. A plan with annotations is left alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from weft.paths import conflicts, normalise
from weft.plan import markdown, mentions, source
from weft.plan.mentions import Repository
from weft.plan.plan_records import Phase, Plan, PlanTask, ReaderOptions
from weft.plan.problems import Problems

_JOINING: Final = ("integrate ", "wire ", "connect ", "hook up ", "combine ", "end-to-end ")
# Beyond so many tasks in a phase, comparing them in pairs takes too long; it is left as it is.
_MOST_COMPARED: Final = 300


class TaskAdvice(Struct, frozen=True, kw_only=True):
    id: str
    files: tuple[str, ...]  # empty: not known
    depends: tuple[str, ...]  # as they are to be written: task1


class PhaseAdvice(Struct, frozen=True, kw_only=True):
    label: str
    parallel: bool
    reason: str  # a sentence for the author
    tasks: tuple[TaskAdvice, ...]


class Advice(Struct, frozen=True, kw_only=True):
    phases: tuple[PhaseAdvice, ...]
    data: bytes  # the file with the annotations in it
    left_alone: bool  # because it has annotations already


def annotate(name: str, data: bytes, repository: Iterable[str] | None = None) -> Advice:
    """Propose annotations for a plan.md that has none."""
    plan = markdown.read(name, data, ReaderOptions()).plan
    text = source.decode(data, Problems(name))
    if text is None or _is_annotated(plan):
        return Advice(phases=(), data=data, left_alone=True)
    known = Repository(repository)
    members: dict[str, list[PlanTask]] = {phase.label: [] for phase in plan.phases}
    for task in plan.tasks:
        members[task.phase].append(task)
    advice = [_look_at(phase, members[phase.label], known) for phase in plan.phases]
    return Advice(
        phases=tuple(advice), data=source.encode(_annotated(text, plan, advice)), left_alone=False
    )


def _is_annotated(plan: Plan) -> bool:
    return any(phase.annotated for phase in plan.phases) or any(
        (task.files is not None and not task.manual)
        or task.depends
        or task.depends_phases
        or task.group
        for task in plan.tasks
    )


def _look_at(phase: Phase, tasks: Sequence[PlanTask], repository: Repository) -> PhaseAdvice:
    labels = [task.label for task in tasks]
    advice = []
    for place, task in enumerate(tasks):
        spoken = f"{task.text}\n{task.details}"
        files = () if task.manual else mentions.find_files(spoken, repository)
        advice.append(
            TaskAdvice(id=task.id, files=files, depends=_needs(task, spoken, labels[:place]))
        )
    parallel, reason = _judge(tasks, advice)
    if parallel and not phase.heading:
        parallel, reason = False, "It has no heading to put an annotation under."
    if not parallel:
        # A sequential phase has an order; saying part of it again would only confuse.
        advice = [replace(each, depends=()) for each in advice]
    return PhaseAdvice(label=phase.label, parallel=parallel, reason=reason, tasks=tuple(advice))


def _needs(task: PlanTask, spoken: str, earlier: Sequence[str]) -> tuple[str, ...]:
    if task.manual:
        return ()
    if task.text.casefold().startswith(_JOINING):
        return tuple(f"task{label}" for label in earlier)
    named = mentions.find_tasks(spoken)
    return tuple(f"task{label}" for label in earlier if label in named)


def _judge(tasks: Sequence[PlanTask], advice: Sequence[TaskAdvice]) -> tuple[bool, str]:
    work = [each for task, each in zip(tasks, advice, strict=True) if not task.manual]
    if len(work) < 2:
        return False, "There is only one task to run."
    if len(work) > _MOST_COMPARED:
        return False, "It has too many tasks to compare them all."
    unknown = [each.id for each in work if not each.files]
    if unknown:
        return False, f"The files of {_listed(unknown)} are not known from the text."
    free = [
        (a.id, b.id)
        for place, b in enumerate(work)
        for a in work[:place]
        if not b.depends and not a.depends and not _share(a, b)
    ]
    if not free:
        return False, "Its tasks change the same files or need each other."
    able = dict.fromkeys(id for pair in free for id in pair)
    return True, f"{_listed(list(able))} change different files."


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
        indent = " " * _indent(text.lines[task.line - 1])
        own = by_task[task.id]
        for key, values in (("files", own.files), ("depends", own.depends)):
            if values:
                line = f"{indent}<!-- {key}: {', '.join(_quoted(each) for each in values)} -->"
                behind.setdefault(task.last_line, []).append(line)
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


def _indent(line: str) -> int:
    """Return the column at which the text of a list item begins, as Markdown counts it."""
    return len(line[: line.find("[")].expandtabs(4))


def _quoted(path: str) -> str:
    return f'"{path}"' if "," in path else path


def _listed(ids: Sequence[str]) -> str:
    return ids[0] if len(ids) == 1 else f"{', '.join(ids[:-1])} and {ids[-1]}"
