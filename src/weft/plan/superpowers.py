"""Reader of superpowers plans: a heading `### Task N`, a `**Files:**` list, and steps as detail.

The boxes of a task are its steps: the task is done when all of them are ticked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from weft.model import State
from weft.plan import source
from weft.plan.annotation_values import normalise_paths
from weft.plan.lost_boxes import has_box
from weft.plan.plan_records import (
    NO_FILES,
    ParsedPlan,
    Phase,
    Plan,
    PlanTask,
    ReaderOptions,
    Source,
)
from weft.plan.problems import TOP, Problems, shorten

_TASK = re.compile(r"#{2,4}[ \t]+Task[ \t]+([0-9]{1,6})[ \t]*[:.–—-]?[ \t]*(.*?)[ \t#]*$", re.I)
_TITLE = re.compile(r"#[ \t]+(.*?)[ \t#]*$")
_ENDS = re.compile(r"#{1,3}[ \t]")
_FENCE = re.compile(r"[ \t]*(```+|~~~+)")
_FILES = re.compile(r"[ \t]*\*\*Files:?\*\*:?", re.I)
_FILE = re.compile(r"[ \t]*[-*+][ \t]+(?:[A-Za-z ]{1,20}:[ \t]*)?`([^`]+)`")
_LINES = re.compile(r":[0-9]+(?:-[0-9]+)?(?:,[0-9]+(?:-[0-9]+)?)*$")
STEP = re.compile(r"[ \t]*[-*+][ \t]+\[(.)\](?=[ \t])")


class TaskSection(NamedTuple):
    """The lines of a task, counted from 0, without line `last`."""

    number: str
    title: str
    first: int
    last: int
    steps: tuple[int, ...]
    prose: tuple[int, ...]  # its lines outside code fences


def read(name: str, data: bytes, _options: ReaderOptions) -> ParsedPlan:
    problems = Problems(name)
    text = source.decode(data, problems)
    lines = text.lines if text else ()
    sections = list(find_sections(lines))
    tasks: dict[str, PlanTask] = {}
    for section in sections:
        if section.number in tasks:
            problems.error(
                (section.first + 1, 1),
                "duplicate-id",
                f"Another task has the number {section.number}.",
                "Give each task its own number.",
            )
            continue
        tasks[section.number] = _task(section, lines, problems)
    _report_outside(sections, lines, problems)
    if not tasks and not problems.failed:
        problems.error(TOP, "no-tasks", "There is no heading `### Task 1: …`.", "Add a task.")
    head = lines[: sections[0].first] if sections else ()
    title = next((match[1] for line in head if (match := _TITLE.match(line))), "")
    plan = Plan(
        name=name,
        source=Source.SUPERPOWERS,
        title=title,
        description="\n".join(line for line in head if not _TITLE.match(line)).strip(),
        phases=(Phase(label="1", title=title, line=1),),
        tasks=tuple(tasks.values()),
    )
    return ParsedPlan(plan=plan, problems=problems.sorted())


def find_sections(lines: Sequence[str]) -> Iterator[TaskSection]:
    """Yield the tasks of the file; code fences hold neither headings nor steps."""
    number, title, first, steps, prose = "", "", 0, list[int](), list[int]()
    fence = ""
    for at, line in enumerate(lines):
        marks = _FENCE.match(line)
        if fence or marks:
            if marks and (not fence or marks[1].startswith(fence)):
                fence = "" if fence else marks[1]
            continue
        heading = _TASK.match(line)
        if number and (heading or _ENDS.match(line)):
            yield TaskSection(number, title, first, at, tuple(steps), tuple(prose))
            number = ""
        if heading:
            number, title, first, steps, prose = heading[1], heading[2], at, [], []
            continue
        prose.append(at)
        if STEP.match(line):
            steps.append(at)
    if number:
        yield TaskSection(number, title, first, len(lines), tuple(steps), tuple(prose))


def _task(section: TaskSection, lines: Sequence[str], problems: Problems) -> PlanTask:
    body = lines[section.first + 1 : section.last]
    files = _files(section, lines, problems)
    marks = {match[1] for at in section.steps if (match := STEP.match(lines[at]))}
    ticked = marks & {"x", "X"}
    is_odd = _report_odd_steps(section, lines, problems)
    is_done = marks <= {"x", "X"} and not is_odd
    status = State.WAITING if not ticked else State.DONE if is_done else State.RUNNING
    if not files and status is not State.DONE:
        problems.warn(
            (section.first + 1, 1),
            NO_FILES,
            f"{section.number} has no `**Files:**` list, so it runs alone.",
            "Add the list, with a path in backticks per line.",
        )
    return PlanTask(
        id=section.number,
        phase="1",
        label=section.number,
        text=section.title or f"Task {section.number}",
        line=section.first + 1,
        last_line=section.first + 1,
        details="\n".join(body).strip(),
        status=status,
        files=files or None,
        named=True,
    )


def _report_odd_steps(section: TaskSection, lines: Sequence[str], problems: Problems) -> bool:
    """Report boxes that are not read as steps; return whether there are any."""
    odd = [at for at in section.prose if at not in section.steps and has_box(lines[at])]
    for at in odd:
        problems.warn(
            (at + 1, 1),
            "unread-task",
            f"{shorten(lines[at].strip())!r} is not read as a step of task {section.number}.",
            "Write `- [ ] `, with blanks.",
        )
    return bool(odd)


def _files(section: TaskSection, lines: Sequence[str], problems: Problems) -> tuple[str, ...]:
    paths: list[tuple[str, int]] = []
    inside = False
    for at in range(section.first + 1, section.last):
        line = lines[at]
        if _FILES.match(line):
            inside = True
        elif inside and (file := _FILE.match(line)):
            paths.append((_LINES.sub("", file[1].strip()), at + 1))
        elif inside and line.strip():
            break
    return normalise_paths(paths, lambda line: (line, 1, None), problems)


def _report_outside(
    sections: Sequence[TaskSection], lines: Sequence[str], problems: Problems
) -> None:
    """Report boxes between the tasks: they belong to no task."""
    inside = {at for section in sections for at in range(section.first, section.last)}
    fence = ""
    for at, line in enumerate(lines):
        marks = _FENCE.match(line)
        if marks and (not fence or marks[1].startswith(fence)):
            fence = "" if fence else marks[1]
        elif not fence and at not in inside and has_box(line):
            problems.warn(
                (at + 1, 1),
                "unread-task",
                f"The box {line.strip()[:60]!r} belongs to no task.",
                "Put it under a heading `### Task N: …`.",
            )
