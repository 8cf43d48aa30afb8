"""Write-back of task states into spec-kit, Kiro, OpenSpec and superpowers plans.

Only the character inside a box changes. These formats have a mark for done work; Kiro also has a
mark for running work. A group is done with its parts, a superpowers task with all its steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from weft.model import State
from weft.plan import checklist, superpowers
from weft.plan.plan_records import Source
from weft.plan.problems import Problems
from weft.plan.task_status import RUNNING

FORMATS: Final = frozenset({Source.SPEC_KIT, Source.KIRO, Source.OPENSPEC, Source.SUPERPOWERS})


def write_marks(
    kind: Source, raw: list[str], lines: tuple[str, ...], states: Mapping[str, State]
) -> set[str]:
    """Change the marks of the tasks with these ids, in place; return the ids of all tasks."""
    if kind is Source.SUPERPOWERS:
        return _tick_steps(raw, lines, states)
    boxes = checklist.find_boxes(kind, lines, Problems("")).boxes
    marks = {box.line: box.mark for box in boxes}
    for box in boxes:
        if box.number in states and not box.parts:
            marks[box.line] = _mark(kind, states[box.number], box.mark)
    for box in reversed(boxes):
        if box.parts and all(marks[part.line] in "xX" for part in box.parts):
            marks[box.line] = box.mark if box.mark in "xX" else "x"
    for box in boxes:
        line = raw[box.line - 1]
        raw[box.line - 1] = line[: box.column] + marks[box.line] + line[box.column + 1 :]
    return {box.number for box in boxes}


def _mark(kind: Source, state: State, present: str) -> str:
    if state is State.DONE:
        return present if present in "xX" else "x"
    if state is State.SKIPPED:
        return present
    return "-" if kind is Source.KIRO and state in RUNNING else " "


def _tick_steps(raw: list[str], lines: tuple[str, ...], states: Mapping[str, State]) -> set[str]:
    numbers = set()
    for section in superpowers.find_sections(lines):
        numbers.add(section.number)
        for at in section.steps if states.get(section.number) is State.DONE else ():
            step = superpowers.STEP.match(lines[at])
            if step is not None and step[1] not in "xX":
                raw[at] = raw[at][: step.start(1)] + "x" + raw[at][step.end(1) :]
    return numbers
