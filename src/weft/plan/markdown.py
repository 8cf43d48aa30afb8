"""Reader of plan.md: from the sections of the file to a `Plan`.

Labels, ids and references are resolved here (rulings 1, 2, 9 and 11); `compiler` builds the graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

from msgspec.structs import replace

from weft.model import HUMAN, State
from weft.plan import markdown_sections, source, task_line
from weft.plan.annotations import Annotation, Notes, parse_or_report, read_notes
from weft.plan.attributes import parse_execution, parse_review
from weft.plan.markdown_blocks import MOST_BLOCKS, TooManyBlocks
from weft.plan.markdown_sections import FoundTask, Section
from weft.plan.plan_prose import PLACEHOLDER, clean_prose
from weft.plan.plan_records import (
    NO_FILES,
    ItemKind,
    ParsedPlan,
    Phase,
    Plan,
    PlanTask,
    ReaderOptions,
    Reference,
    Source,
)
from weft.plan.problems import TOP, Problems, shorten
from weft.plan.references import Names, NeedText, PhaseName, TaskName, label_phases, label_tasks
from weft.plan.stories import complete_team, join_parts


def read(name: str, data: bytes, _options: ReaderOptions) -> ParsedPlan:
    """Read a plan.md; for any bytes, return a plan and its problems."""
    problems = Problems(name)
    text = source.decode(data, problems)
    sections: list[Section] = []
    if text is not None:
        try:
            sections = markdown_sections.split_sections(text.lines, problems)
        except TooManyBlocks:
            problems.error(
                TOP,
                "too-large",
                f"The file is made of more than {MOST_BLOCKS:,} paragraphs and list items.",
                "Split the plan into several files.",
            )
    plan = _assemble(name, sections, problems)
    if text is not None:
        plan = _with_prose(plan, sections, text.lines)
    _report_template(plan, problems)
    if not plan.tasks and not problems.failed:
        problems.error(
            TOP,
            "no-tasks",
            "There is no task in this file.",
            "Write tasks as `- [ ] Task 1: what to do` under `## Phase 1: name`.",
        )
    return ParsedPlan(plan=plan, problems=problems.sorted())


class _TaskDraft(NamedTuple):
    """A task with its id; its references are not resolved yet."""

    item: FoundTask
    phase: str
    label: str
    id: str
    named: bool
    notes: Notes


def _assemble(name: str, sections: list[Section], problems: Problems) -> Plan:
    review = _take_review(sections, problems)
    with_tasks = [section for section in sections if section.tasks]
    _report_lost_notes(sections, problems)
    phase_labels = label_phases(with_tasks, problems)
    drafts: list[_TaskDraft] = []
    doubled: set[tuple[str, str]] = set()
    taken: set[str] = set()
    for section, phase in zip(with_tasks, phase_labels.labels, strict=True):
        _report_criteria(section, problems)
        task_labels = label_tasks(section, phase, problems)
        doubled.update((phase, number) for number in task_labels.doubled)
        for task, label in zip(section.tasks, task_labels.labels, strict=True):
            drafts.append(_draft(task, phase, label, taken, problems))
    drafts = _with_free_ids(drafts, taken, problems)
    names = Names(
        phases=[
            PhaseName(label=label, texts=(section.heading.title, section.heading.written))
            for section, label in zip(with_tasks, phase_labels.labels, strict=True)
        ],
        tasks=[
            TaskName(id=draft.id, phase=draft.phase, label=draft.label, named=draft.named)
            for draft in drafts
        ],
        doubled_phases=phase_labels.doubled,
        doubled_tasks=frozenset(doubled),
    )
    tasks = join_parts([_task(draft, names, problems) for draft in drafts], problems)
    notes = {draft.id: draft.notes for draft in drafts}
    for joined in tasks:
        # A story claims the files of its parts, and a part without files those of its story.
        if not joined.files and joined.kind is not ItemKind.STORY:
            _report_claims(joined, notes[joined.id], problems)
        _report_held(joined, problems)
    return Plan(
        name=name,
        source=Source.MARKDOWN,
        title=next((each.heading.written for each in sections if each.level == 1), ""),
        review=review,
        phases=tuple(
            _phase(section, label, names, problems)
            for section, label in zip(with_tasks, phase_labels.labels, strict=True)
        ),
        tasks=tasks,
    )


def _report_template(plan: Plan, problems: Problems) -> None:
    for task in plan.tasks:
        if task.text.startswith(PLACEHOLDER) and not task.settled:
            problems.error(
                (task.line, task.column),
                "placeholder",
                f"{task.id} is still the task of the template.",
                "Write your own task in its place, or remove it.",
            )


def _with_prose(plan: Plan, sections: Sequence[Section], lines: Sequence[str]) -> Plan:
    with_tasks = [section for section in sections if section.tasks]
    if not with_tasks:
        return plan
    titles = {section.line - 1 for section in sections if section.level == 1}
    # A section without a heading has no line of its own.
    before = with_tasks[0].line - 1 if with_tasks[0].level else with_tasks[0].tasks[0].line - 1
    head = [line for at, line in enumerate(lines[:before]) if at not in titles]
    phases = [
        replace(
            phase,
            prose=clean_prose(lines[section.line : section.tasks[0].line - 1])
            if section.level
            else "",
        )
        for phase, section in zip(plan.phases, with_tasks, strict=True)
    ]
    return replace(plan, description=clean_prose(head), phases=tuple(phases))


def _take_review(sections: list[Section], problems: Problems) -> bool:
    """Take `review: you` out of the notes below the title, where it stands for all tasks."""
    review = False
    for section in sections:
        notes = [note for note in section.notes if note.key == "review"]
        if section.level == 1 and notes:
            given = parse_or_report(parse_review, notes[0], problems, ("you",))
            review = review or bool(given)
            section.notes = [note for note in section.notes if note.key != "review"]
    return review


def _draft(
    task: FoundTask, phase: str, label: str, taken: set[str], problems: Problems
) -> _TaskDraft:
    notes = read_notes(_own(task.notes, problems), problems)
    chosen = notes.values.pop("id", None)
    named = chosen is not None and chosen not in taken
    if chosen is not None:
        if not named:
            problems.error(
                notes.first["id"].place,
                "duplicate-id",
                f"Another task has the id {shorten(chosen)!r}.",
                "Give each task its own id.",
            )
        taken.add(chosen)
    return _TaskDraft(
        item=task,
        phase=phase,
        label=label,
        id=chosen if named else f"{phase}.{label}",
        named=named,
        notes=notes,
    )


def _with_free_ids(
    drafts: list[_TaskDraft], taken: set[str], problems: Problems
) -> list[_TaskDraft]:
    """Keep an author's id such as `1.2` apart from the task that is labelled so."""
    free = []
    for draft in drafts:
        id = draft.id
        if not draft.named and id in taken:
            problems.error(
                (draft.item.line, draft.item.column),
                "duplicate-id",
                f"Another task has the id {id!r}, which is this one's place in the plan.",
                "Choose ids that are not numbers.",
            )
            while id in taken:
                id += "'"
            draft = draft._replace(id=id)
        taken.add(id)
        free.append(draft)
    return free


def _own(notes: Sequence[Annotation], problems: Problems) -> list[Annotation]:
    own = []
    for note in notes:
        if note.key == "execution":
            _report_misplaced(note, "a task", "under the heading of the phase", problems)
        else:
            own.append(note)
    return own


def _phase(section: Section, label: str, names: Names, problems: Problems) -> Phase:
    depends: list[Reference] | None = None
    parallel: bool | None = None
    for note in section.notes:
        if note.key == "execution":
            if parallel is not None:
                problems.error(
                    note.place, "repeated-key", "'execution' was given before.", "Keep one."
                )
                continue
            parallel = parse_or_report(parse_execution, note, problems, ("parallel", "sequential"))
        elif note.key == "depends":
            depends = depends or []
            for item in note.items():
                if not item.quoted and item.text.lower() == "none":
                    continue
                asked = NeedText(item.text, note.place_of(item))
                meant = names.find_phase(asked, problems)
                if meant == label:
                    problems.error(
                        asked.at,
                        "own-phase",
                        f"Phase {label} depends on itself.",
                        "Name the phases that come before it.",
                    )
                elif meant is not None:
                    depends.append(_refer(meant, asked))
        else:
            _report_misplaced(note, "a phase", "under its task, indented", problems)
    return Phase(
        label=label,
        title=section.heading.title,
        line=section.line,
        parallel=bool(parallel),
        depends=None if depends is None else tuple(depends),
        checkpoint=section.heading.checkpoint,
        heading=section.heading.written,
        annotated=bool(section.notes),
    )


def _task(draft: _TaskDraft, names: Names, problems: Problems) -> PlanTask:
    item, notes = draft.item, draft.notes
    sentence = item.sentence
    depends, depends_phases = _references(draft, names, problems) if notes.depends else ((), ())
    values = notes.values
    parent = _find_story(draft, values.pop("part_of", None), names, problems)
    if not values.keys().isdisjoint(("team", "judge", "risky")):
        complete_team(notes, problems)
    if "agent" not in values and task_line.asks_for_a_person(sentence.text):
        values["agent"] = HUMAN
    task = PlanTask(
        id=draft.id,
        phase=draft.phase,
        label=draft.label,
        text=sentence.text,
        line=item.line,
        column=item.column,
        last_line=item.last_line,
        details=item.details,
        status=sentence.status,
        commit=sentence.commit,
        note=sentence.note,
        depends=depends,
        depends_phases=depends_phases,
        named=draft.named,
        parent=parent,
        **values,
    )
    if task.manual:
        task = replace(task, files=())
    return task


def _find_story(
    draft: _TaskDraft, written: str | None, names: Names, problems: Problems
) -> str | None:
    if written is None:
        return None
    asked = NeedText(written, draft.notes.first["part-of"].place)
    meant = names.find_task(asked, draft.phase, problems)
    return meant.task if meant is not None else None


def _references(
    draft: _TaskDraft, names: Names, problems: Problems
) -> tuple[tuple[Reference, ...], tuple[Reference, ...]]:
    tasks: list[Reference] = []
    phases: list[Reference] = []
    for item, note in draft.notes.depends:
        if not item.quoted and item.text.lower() == "none":
            continue
        asked = NeedText(item.text, note.place_of(item))
        meant = names.find_task(asked, draft.phase, problems)
        if meant is None:
            continue
        if meant.task is not None:
            tasks.append(_refer(meant.task, asked))
        elif meant.phase is not None:
            phases.append(_refer(meant.phase, asked))
    return tuple(tasks), tuple(phases)


def _refer(to: str, asked: NeedText) -> Reference:
    return Reference(to=to, line=asked.at[0], column=asked.at[1])


def _report_claims(task: PlanTask, notes: Notes, problems: Problems) -> None:
    if task.manual and notes.values["files"]:
        problems.warn(
            notes.first["files"].place,
            "manual-files",
            f"{task.id} waits for a person and claims no files.",
            "Remove `files:`, or name the agent that does the work with `agent:`.",
        )
    if task.files is None and not task.settled:
        note = notes.first.get("files")
        what = "names no file that can be used" if note else "does not say which files it changes"
        problems.warn(
            note.place if note else (task.line, task.column),
            NO_FILES,
            f"{task.id} {what}, so it runs alone.",
            "Add `<!-- files: … -->` under it, or `files: none` if it changes nothing.",
        )


def _report_held(task: PlanTask, problems: Problems) -> None:
    if task.status is State.BLOCKED:
        why = f": {shorten(task.note)}" if task.note else ""
        problems.warn(
            (task.line, task.column),
            "held-back",
            f"{task.id} is held back{why}; it waits for you.",
            "`weft retry` lets it start, and so does another mark, such as [ ].",
        )


def _report_criteria(section: Section, problems: Problems) -> None:
    if task_line.is_no_work(section.heading.title):
        problems.warn(
            (section.line, 1),
            "criteria-heading",
            f"Each box under {shorten(section.heading.written)!r} is read as a task.",
            "Write them without boxes if agents are not to work on them.",
        )


def _report_misplaced(note: Annotation, place: str, better: str, problems: Problems) -> None:
    problems.warn(
        note.place,
        "misplaced-key",
        f"{note.key!r} means nothing for {place}, and is ignored.",
        f"Put it {better}.",
    )


def _report_lost_notes(sections: Sequence[Section], problems: Problems) -> None:
    for note in chain.from_iterable(each.notes for each in sections if not each.tasks):
        problems.warn(
            note.place,
            "lost-annotation",
            f"{note.key!r} is outside any task, and is ignored.",
            "Put it under the heading of its phase, or under its task.",
        )
