"""Labels of phases and tasks (ruling 11): the number in the plan, or a free number."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from itertools import islice
from string import ascii_uppercase
from typing import Final, NamedTuple

from msgspec import Struct

from weft.plan.markdown_sections import Section
from weft.plan.problems import Place, Problems, shorten


class Labels(Struct, frozen=True, kw_only=True):
    labels: tuple[str, ...]  # of each, in order; no two are equal
    doubled: frozenset[str]  # numbers that several carry


def label_phases(with_tasks: Sequence[Section], problems: Problems) -> Labels:
    numbers: list[str | None] = []
    for section in with_tasks:
        number = section.heading.number
        if section.level != 2 and section.level > 0:
            problems.warn(
                (section.line, 1),
                "phase-heading",
                f"{shorten(section.heading.written)!r} is read as a phase, though it is a "
                f"heading of level {section.level}.",
                "Write phases as `## Phase 1: name`.",
            )
        if number is not None and "." in number:
            problems.warn(
                (section.line, 1),
                "odd-number",
                f"A phase cannot carry the number {number}; it is numbered by its place.",
                "Write phases as `## Phase 1: name`.",
            )
            number = None
        numbers.append(number)
    places = [(section.line, 1) for section in with_tasks]
    return _assign(numbers, places, ("phase", "each phase"), problems)


def label_tasks(section: Section, phase: str, problems: Problems) -> Labels:
    numbers: list[str | None] = []
    for task in section.tasks:
        number = task.sentence.number
        if number is not None and "." in number:
            of_phase, _, number = number.rpartition(".")
            if of_phase != phase:
                problems.warn(
                    (task.line, task.column),
                    "odd-number",
                    f"Task {task.sentence.number} is in phase {phase}, "
                    f"and is taken for its task {number}.",
                    "Number the tasks of each phase from 1.",
                )
        numbers.append(number)
    places = [(task.line, task.column) for task in section.tasks]
    return _assign(numbers, places, ("task", "each task of a phase"), problems)


def _assign(
    numbers: Sequence[str | None],
    places: Sequence[Place],
    words: tuple[str, str],
    problems: Problems,
) -> Labels:
    """Label the tasks of a phase, or the phases of a plan, given the number each carries.

    Report the numbers that are taken; `words` name such an item, and all of them.
    """
    carried = {number for number in numbers if number is not None}
    labels: list[str | None] = []
    taken: set[str] = set()
    doubled: set[str] = set()
    repeats = []
    for place, number in enumerate(numbers):
        label = number
        if number is None:
            ordinal = str(place + 1)
            label = None if ordinal in carried else ordinal
        elif number in taken:
            doubled.add(number)
            repeats.append(place)
            label = None
        labels.append(label)
        if label is not None:
            taken.add(label)
    # Numbers above the highest are free.
    free = max((_leading(label) for label in taken | carried), default=0) + 1
    final = []
    for label in labels:
        if label is None:
            label = str(free)
            free += 1
        final.append(label)
    for place in repeats:
        problems.warn(
            places[place],
            "repeated-number",
            f"The number {numbers[place]} is taken; this is {words[0]} {final[place]}.",
            f"Give {words[1]} its own number.",
        )
    return Labels(labels=tuple(final), doubled=frozenset(doubled))


def _leading(label: str) -> int:
    """Return the number a label begins with: 12 of 12B, 0 of B."""
    return int(label.rstrip(ascii_uppercase).partition(".")[0] or 0)


_NUMBER = r"([0-9]{1,9}[A-Za-z]?)"
_PHASE_NAME = r"([0-9]{1,9}[A-Za-z]?|[A-Za-z]|[IVX]{2,5})"
_TASK_OF_PHASE = re.compile(
    rf"(?:phase|task)?[ _#-]*{_PHASE_NAME}(?:[ ]*[./:][ ]*|[ ]+(?=task))(?:task)?[ _#-]*{_NUMBER}",
    re.IGNORECASE,
)
_TASK = re.compile(rf"(?:task)?[ _#-]*{_NUMBER}", re.IGNORECASE)
_PHASE = re.compile(rf"phase[ _#-]*{_PHASE_NAME}", re.IGNORECASE)
_PHASE_OR_NUMBER = re.compile(rf"(?:phase)?[ _#-]*{_PHASE_NAME}", re.IGNORECASE)
_LONGEST: Final = 200
_LISTED: Final = 5


class NeedText(NamedTuple):
    """A reference as it is written."""

    text: str
    at: Place


class PhaseName(NamedTuple):
    label: str
    texts: tuple[str, ...]  # its title and its whole heading


class TaskName(NamedTuple):
    id: str
    phase: str  # label
    label: str
    named: bool  # whether the id is the author's


class NeedTarget(NamedTuple):
    """A task or a whole phase."""

    task: str | None = None  # id
    phase: str | None = None  # label


class Names:
    """The names of a plan's phases and tasks."""

    def __init__(
        self,
        phases: Sequence[PhaseName],
        tasks: Sequence[TaskName],
        doubled_phases: frozenset[str],
        doubled_tasks: frozenset[tuple[str, str]],  # phase and number
    ) -> None:
        self._phases = phases
        self._doubled_phases = doubled_phases
        self._doubled_tasks = doubled_tasks
        self._doubled = frozenset(number for _, number in doubled_tasks)
        self._by_id = {task.id: task.id for task in tasks if task.named}
        self._by_place = {(task.phase, task.label): task.id for task in tasks}
        self._by_label: dict[str, list[str]] = {}
        self._by_phase: dict[str, list[str]] = {phase.label: [] for phase in phases}
        for task in tasks:
            self._by_label.setdefault(task.label, []).append(task.id)
            self._by_phase[task.phase].append(task.id)
        self._by_text: dict[str, list[str]] = {}
        for phase in phases:
            for text in {_plain(text) for text in phase.texts if text}:
                self._by_text.setdefault(text, []).append(phase.label)

    def find_phase(self, asked: NeedText, problems: Problems) -> str | None:
        """Return the label of the phase that is meant; None, reported, if it is unclear."""
        number = _PHASE_OR_NUMBER.fullmatch(asked.text[:_LONGEST])
        label = self._phase_by_number(_written(number[1])) if number else None
        if label is not None and label not in self._doubled_phases:
            return label
        meant = self._by_text.get(_plain(asked.text), [])
        if label is None and len(meant) == 1:
            return meant[0]
        if label is not None:
            problems.error(
                asked.at,
                "ambiguous-phase",
                f"Several phases carry the number {label}.",
                "Give each its own number, or name the one you mean by its heading.",
            )
        elif meant:
            problems.error(
                asked.at,
                "ambiguous-phase",
                f"Several phases are called {shorten(asked.text)!r}: {_listed(meant)}.",
                "Name the one you mean by its number.",
            )
        else:
            self._report_unknown_phase(asked, problems)
        return None

    def find_task(self, asked: NeedText, phase: str, problems: Problems) -> NeedTarget | None:
        """Return the task, or the whole phase, that a task of `phase` refers to."""
        if asked.text in self._by_id:
            return NeedTarget(task=asked.text)
        short = asked.text[:_LONGEST]
        if place := _TASK_OF_PHASE.fullmatch(short):
            label = self._phase_by_number(_written(place[1]))
            if label is not None:
                return self._task_of(label, _written(place[2]), asked, problems)
        elif number := _TASK.fullmatch(short):
            return self._task_near(phase, _written(number[1]), asked, problems)
        elif _PHASE.fullmatch(short) or _plain(short) in self._by_text:
            label = self.find_phase(asked, problems)
            return NeedTarget(phase=label) if label is not None else None
        self._report_unknown_task(asked, phase, problems)
        return None

    def _task_of(
        self, phase: str, label: str, asked: NeedText, problems: Problems
    ) -> NeedTarget | None:
        """Find a task by phase and number."""
        if phase in self._doubled_phases or (phase, label) in self._doubled_tasks:
            _report_doubled(asked, problems)
            return None
        if (phase, label) in self._by_place:
            return NeedTarget(task=self._by_place[phase, label])
        self._report_unknown_task(asked, phase, problems)
        return None

    def _task_near(
        self, phase: str, label: str, asked: NeedText, problems: Problems
    ) -> NeedTarget | None:
        """Find a task by number alone: in this phase, else in the whole plan if it is unique."""
        if (phase, label) in self._doubled_tasks:
            _report_doubled(asked, problems)
            return None
        if (phase, label) in self._by_place:
            return NeedTarget(task=self._by_place[phase, label])
        same = self._by_label.get(label, [])
        if len(same) == 1 and label not in self._doubled:
            return NeedTarget(task=same[0])
        if same:
            problems.error(
                asked.at,
                "ambiguous-task",
                f"{shorten(asked.text)!r} may mean {_listed(same)}; "
                f"phase {phase} has no task {label}.",
                f"Write the one you mean, such as {same[0]}.",
            )
        else:
            self._report_unknown_task(asked, phase, problems)
        return None

    def _phase_by_number(self, number: str) -> str | None:
        """Return the phase with this label, or else the phase at this place."""
        if number in self._by_phase:
            return number
        if number.isdigit() and 0 < int(number) <= len(self._phases):
            return self._phases[int(number) - 1].label
        return None

    def _report_unknown_phase(self, asked: NeedText, problems: Problems) -> None:
        known = f"The plan has the phases {_listed(self._by_phase)}."
        problems.error(
            asked.at,
            "unknown-phase",
            f"There is no phase {shorten(asked.text)!r}.",
            problems.suggest(_plain(asked.text), self._by_text, known),
        )

    def _report_unknown_task(self, asked: NeedText, phase: str, problems: Problems) -> None:
        known = f"phase {phase} has {_listed(self._by_phase.get(phase, []))}."
        forms = f"Write task2, phase1/task2, 1.2 or an id; {known}"
        problems.error(
            asked.at,
            "unknown-task",
            f"There is no task {shorten(asked.text)!r}.",
            problems.suggest(asked.text, self._by_id, forms),
        )


def _report_doubled(asked: NeedText, problems: Problems) -> None:
    problems.error(
        asked.at,
        "ambiguous-task",
        f"{shorten(asked.text)!r} may mean several tasks, since a number in it is given twice.",
        "Give each its own number, or an `id:` to refer to.",
    )


def _plain(text: str) -> str:
    return " ".join(text[:_LONGEST].casefold().split())


def _written(number: str) -> str:
    """Write a number as labels are written: 01a is 1A, b is B."""
    if number.isalpha():
        return number.upper()
    letter = number[-1].upper() if number[-1].isalpha() else ""
    return str(int(number[:-1] if letter else number)) + letter


def _listed(names: Collection[str]) -> str:
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(islice(names, _LISTED)) + more
