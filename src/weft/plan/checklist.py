"""Reader of checklists whose tasks carry their own numbers: spec-kit, Kiro and OpenSpec.

    - [ ] T004 [P] [US1] Create the model in src/user.py (depends on T001)    spec-kit
    - [-] 2.1 Write the parser                                                Kiro
    - [ ] 1.2 Add the table                                                   OpenSpec

Each box is a task, a group with numbered boxes below it, or a problem with its line. Tasks run in
the order of the file; only neighbours that spec-kit marks [P] run together, as far as their files
allow.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from weft.model import HUMAN, State
from weft.plan import mentions, source, task_line
from weft.plan.annotations import normalise_paths
from weft.plan.plan_records import (
    NO_FILES,
    ParsedPlan,
    Phase,
    Plan,
    PlanTask,
    ReaderOptions,
    Reference,
    Source,
)
from weft.plan.problems import TOP, Problems, shorten
from weft.plan.task_line import has_box

_BOX = re.compile(r"(?P<indent>[ \t]*)[-*+][ \t]+\[(?P<mark>.)\](?P<star>\*?)[ \t]+(?P<rest>.*)")
_HEADING = re.compile(r"(?P<level>#{1,6})[ \t]+(?P<text>.*?)[ \t#]*$")
_FENCE = re.compile(r"[ \t]*(```+|~~~+)")
_NUMBERS: Final[Mapping[Source, re.Pattern[str]]] = {
    Source.SPEC_KIT: re.compile(r"(T[0-9]{1,6})[ \t:.]+"),
    Source.KIRO: re.compile(r"([0-9]{1,4}(?:\.[0-9]{1,4}){0,3})\.?[ \t]+"),
    Source.OPENSPEC: re.compile(r"([0-9]{1,4}(?:\.[0-9]{1,4}){1,3})\.?[ \t]+"),
}
_TAG = re.compile(r"\[(P|US[0-9]{1,4})\][ \t]*")
_NEEDS = re.compile(
    r"\((?:depends on|after|requires)[ \t]+(T[0-9]{1,6}(?:[ \t]*(?:,|and|&)[ \t]*T[0-9]{1,6})*)\)",
    re.IGNORECASE,
)
_TASK_ID = re.compile(r"T[0-9]{1,6}")
_KIRO_MARKS: Final = {**task_line.MARKS, "-": State.RUNNING}


class ChecklistBox(Struct, kw_only=True):
    """A box of the file, with the lines below it."""

    line: int  # counted from 1
    column: int  # of the mark, counted from 0
    indent: int
    mark: str
    number: str
    text: str
    section: int  # its heading, by place
    tags: tuple[str, ...] = ()
    optional: bool = False
    body: list[str] = field(default_factory=list)
    parent: ChecklistBox | None = None
    parts: list[ChecklistBox] = field(default_factory=list)


class Checklist(Struct, kw_only=True):
    title: str = ""
    prose: list[str] = field(default_factory=list)  # before the first box
    headings: list[tuple[str, int]] = field(default_factory=lambda: [("", 1)])
    boxes: list[ChecklistBox] = field(default_factory=list)


def read_as(kind: Source, name: str, data: bytes, options: ReaderOptions) -> ParsedPlan:
    """Read a checklist; for any bytes, return a plan and its problems."""
    problems = Problems(name)
    text = source.decode(data, problems)
    checklist = find_boxes(kind, text.lines if text else (), problems)
    if not checklist.boxes and not problems.failed:
        problems.error(TOP, "no-tasks", f"There is no {kind} task in this file.", "Add a task.")
    plan = _plan(kind, name, checklist, options, problems)
    return ParsedPlan(plan=plan, problems=problems.sorted())


def find_boxes(kind: Source, lines: Sequence[str], problems: Problems) -> Checklist:
    checklist = Checklist()
    for number, (line, is_code) in enumerate(zip(lines, _find_code(lines), strict=True), 1):
        if is_code:
            _add_prose(checklist, line)
        elif heading := _HEADING.match(line):
            _add_heading(checklist, heading, number)
        elif box := _BOX.match(line):
            _add_box(kind, checklist, box, number, problems)
        else:
            if has_box(line) and not _is_step(kind, checklist, line):
                _report_unread(line, number, "Write `- [ ] `, with blanks.", problems)
            _add_prose(checklist, line)
    return checklist


def _find_code(lines: Sequence[str]) -> Iterator[bool]:
    """Tell of each line whether it is inside a code fence, or such a fence itself."""
    fence = ""
    for line in lines:
        marks = _FENCE.match(line)
        yield bool(fence or marks)
        if marks and (not fence or marks[1].startswith(fence)):
            fence = "" if fence else marks[1]


def _is_step(kind: Source, checklist: Checklist, line: str) -> bool:
    """Tell whether an odd box is detail of the task above it: indented, and without a number."""
    indent = len(line) - len(line.lstrip())
    is_below = bool(checklist.boxes) and indent > checklist.boxes[-1].indent
    return is_below and not re.search(rf"[\]☐☑][ \t]*\*?[ \t]*{_NUMBERS[kind].pattern}", line)


def _add_heading(checklist: Checklist, heading: re.Match[str], number: int) -> None:
    if heading["level"] == "#" and not checklist.title:
        checklist.title = heading["text"]
    elif len(heading["level"]) <= 2:
        checklist.headings.append((heading["text"], number))


def _add_prose(checklist: Checklist, line: str) -> None:
    if not checklist.boxes:
        checklist.prose.append(line)
        return
    last = checklist.boxes[-1]
    if not line.strip() or len(line) - len(line.lstrip()) > last.indent:
        last.body.append(line)


def _add_box(
    kind: Source, checklist: Checklist, match: re.Match[str], number: int, problems: Problems
) -> None:
    rest = match["rest"]
    id = _NUMBERS[kind].match(rest)
    indent = len(match["indent"].expandtabs(4))
    above = checklist.boxes[-1] if checklist.boxes else None
    if id is None:
        if above is not None and indent > above.indent:
            above.body.append(match[0])  # a step of the task above it
            return
        forms = "T012" if kind is Source.SPEC_KIT else "1.2"
        _report_unread(match[0], number, f"Give it a number, such as {forms}.", problems)
        return
    if match["mark"] not in task_line.MARKS:
        problems.error(
            (number, match.start("mark") + 1),
            "unknown-mark",
            f"The mark [{match['mark']}] means nothing to weft.",
            "Write [ ] to do or [x] done.",
        )
    while above is not None and above.indent >= indent:
        above = above.parent
    rest = rest[id.end() :]
    tags = []
    while tag := _TAG.match(rest):
        tags.append(tag[1])
        rest = rest[tag.end() :]
    box = ChecklistBox(
        line=number,
        column=match.start("mark"),
        indent=indent,
        mark=match["mark"],
        number=id[1],
        text=" ".join(rest.split()),
        section=len(checklist.headings) - 1,
        tags=tuple(tags),
        optional=bool(match["star"]),
        parent=above,
    )
    if above is not None:
        above.parts.append(box)
    checklist.boxes.append(box)


def _report_unread(line: str, number: int, cure: str, problems: Problems) -> None:
    problems.error(
        (number, 1), "unread-task", f"{shorten(line.strip())!r} is not read as a task.", cure
    )


def _plan(
    kind: Source, name: str, checklist: Checklist, options: ReaderOptions, problems: Problems
) -> Plan:
    tasks: list[PlanTask] = []
    seen: set[str] = set()
    leaves = [box for box in checklist.boxes if not box.parts]
    for box in leaves:
        if box.number in seen:
            problems.error(
                (box.line, box.column + 1),
                "duplicate-id",
                f"Another task has the number {box.number}.",
                "Give each task its own number.",
            )
            continue
        seen.add(box.number)
        tasks.append(_task(kind, box, options, problems))
    used = list(dict.fromkeys(box.section for box in leaves)) if tasks else []
    labels = {section: str(place) for place, section in enumerate(used, 1)}
    by_number = {box.number: box for box in leaves}
    tasks = [_placed(kind, task, by_number, labels, seen, problems) for task in tasks]
    if kind is Source.SPEC_KIT:
        tasks = _ordered(tasks)
    _report_no_files(tasks, problems)
    return Plan(
        name=name,
        source=kind,
        title=checklist.title,
        description="\n".join(checklist.prose).strip(),
        phases=tuple(
            Phase(
                label=labels[section],
                title=checklist.headings[section][0],
                line=checklist.headings[section][1],
                heading=checklist.headings[section][0],
                parallel=kind is Source.SPEC_KIT,
            )
            for section in used
        ),
        tasks=tuple(tasks),
    )


def _task(kind: Source, box: ChecklistBox, options: ReaderOptions, problems: Problems) -> PlanTask:
    marks = _KIRO_MARKS if kind is Source.KIRO else task_line.MARKS
    status = marks.get(box.mark, State.WAITING)
    if box.optional and status is State.WAITING and box.number not in options.take:
        status = State.SKIPPED
        problems.warn(
            (box.line, box.column + 1),
            "optional-task",
            f"{box.number} is optional, and is left out.",
            f"`--take {box.number}` runs it.",
        )
    details = textwrap.dedent("\n".join(box.body)).strip()
    above = box.parent
    while above is not None:
        body = textwrap.dedent("\n".join(above.body)).strip()
        part = f"Part of {above.number} {above.text}\n{body}".strip()
        details = f"{part}\n\n{details}".strip()
        above = above.parent
    if story := next((tag for tag in box.tags if tag != "P"), ""):
        details = f"User story: {story}\n\n{details}".strip()
    files = mentions.find_files(box.text, mentions.Repository(None))
    manual = task_line.asks_for_a_person(box.text)
    claims: tuple[str, ...] | None = files if files and kind is Source.SPEC_KIT else None
    return PlanTask(
        id=box.number,
        phase=str(box.section),
        label=box.number,
        text=box.text or box.number,
        line=box.line,
        column=box.column,
        last_line=box.line,
        details=details,
        status=status,
        agent=HUMAN if manual else None,
        files=() if manual else claims,
        parallel=kind is Source.SPEC_KIT and "P" in box.tags,
        named=True,
    )


def _placed(
    kind: Source,
    task: PlanTask,
    boxes: Mapping[str, ChecklistBox],
    labels: Mapping[int, str],
    known: set[str],
    problems: Problems,
) -> PlanTask:
    """Put a task into its phase, and resolve its "(depends on T001)"."""
    depends = []
    for group in _NEEDS.finditer(task.text) if kind is Source.SPEC_KIT else ():
        for need in _TASK_ID.findall(group[1].upper()):
            if need in known and need != task.id:
                depends.append(Reference(to=need, line=task.line))
            else:
                problems.error(
                    (task.line, 1),
                    "unknown-task",
                    f"{task.id} depends on {need}, which is not in this file.",
                    "Write the number of a task of this file.",
                )
    return replace(task, phase=labels[boxes[task.id].section], depends=tuple(depends))


def _ordered(tasks: list[PlanTask]) -> list[PlanTask]:
    """Let each task follow the group before it; neighbours that are marked [P] are a group."""
    ordered = []
    before: list[PlanTask] = []
    group: list[PlanTask] = []
    phase, parallel = "", False
    for task in tasks:
        if task.phase != phase:
            before, group = [], []
        elif not (task.parallel and parallel):
            before, group = group, []
        group.append(task)
        phase, parallel = task.phase, task.parallel
        implied = [Reference(to=each.id, line=task.line) for each in before]
        named = {reference.to for reference in task.depends}
        more = [reference for reference in implied if reference.to not in named]
        ordered.append(replace(task, depends=(*task.depends, *more)))
    return ordered


def _report_no_files(tasks: Sequence[PlanTask], problems: Problems) -> None:
    unknown = [task for task in tasks if task.files is None and not task.settled]
    for task in unknown:
        if task.parallel:
            problems.warn(
                (task.line, task.column + 1),
                "parallel-without-files",
                f"{task.id} is marked [P] but names no file, so it runs alone.",
                "Name the files it changes in its text.",
            )
    if unknown:
        problems.warn(
            (unknown[0].line, 1),
            NO_FILES,
            "1 task does not say which files it changes; it runs alone."
            if len(unknown) == 1
            else f"{len(unknown)} tasks do not say which files they change; each runs alone.",
            "The tasks run one after the other in any case, except those marked [P].",
        )


_TASK = re.compile(r"#{2,4}[ \t]+Task[ \t]+([0-9]{1,6})[ \t]*[:.–—-]?[ \t]*(.*?)[ \t#]*$", re.I)
_TITLE = re.compile(r"#[ \t]+(.*?)[ \t#]*$")
_ENDS = re.compile(r"#{1,3}[ \t]")

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


def read_superpowers(name: str, data: bytes, _options: ReaderOptions) -> ParsedPlan:
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
        tasks[section.number] = _stepped_task(section, lines, problems)
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
    for at, (line, is_code) in enumerate(zip(lines, _find_code(lines), strict=True)):
        if is_code:
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


def _stepped_task(section: TaskSection, lines: Sequence[str], problems: Problems) -> PlanTask:
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
    for at, (line, is_code) in enumerate(zip(lines, _find_code(lines), strict=True)):
        if not is_code and at not in inside and has_box(line):
            problems.warn(
                (at + 1, 1),
                "unread-task",
                f"The box {line.strip()[:60]!r} belongs to no task.",
                "Put it under a heading `### Task N: …`.",
            )
