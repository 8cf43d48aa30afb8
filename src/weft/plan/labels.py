"""Labels of phases and tasks (ruling 11): the number in the plan, or a free number."""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_uppercase

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
