"""The status of a task as write-back puts it into the file of a plan."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import partial
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from weft.errors import InputError
from weft.model import State
from weft.plan import checklist, markdown, prd, source, task_line
from weft.plan.annotations import find_in_paragraph
from weft.plan.json_document import Change, Node, edit_objects, find_spelling
from weft.plan.plan_records import Phase, Plan, PlanTask, ReaderOptions, Source
from weft.plan.problems import Problems
from weft.plan.source import without_surrogates
from weft.plan.task_line import MARKS

RUNNING: Final = frozenset({State.RUNNING, State.PARKED, State.PAUSED, State.GATING})
"""The states of a task that an agent or the gate works on."""

_LONGEST_NOTE: Final = 200
# Characters that would end the note, open a comment or hide the text behind it.
_UNSAFE: Final = str.maketrans({"[": "(", "]": ")", "`": "'", "<": "‹", ">": "›"})


class Status(Struct, frozen=True, kw_only=True):
    """The state of a task to write into the plan."""

    state: State
    commit: str | None = None  # written as it is given: shorten it first
    note: str = ""  # why it is blocked or failed

    @property
    def safe_note(self) -> str:
        """The note as a single safe line, for any text of an agent."""
        note = without_surrogates(self.note[: 4 * _LONGEST_NOTE])
        printable = "".join(letter if letter.isprintable() else " " for letter in note)
        return " ".join(printable.translate(_UNSAFE).split())[:_LONGEST_NOTE].rstrip()


_SIMILAR: Final = 0.6
_COMPARED: Final = 300


def match_tasks(before: Plan, now: Plan, ids: Iterable[str]) -> dict[str, PlanTask]:
    """Find the tasks with these ids of the plan `before` in the plan `now`."""
    wanted = [task for task in before.tasks if task.id in set(ids)]
    matches: dict[str, PlanTask] = {}
    # Every task of the old plan has a say, so that none takes the place of another.
    for old, new in _pairs(before, now):
        matches.setdefault(old.id, new)
    return {task.id: matches[task.id] for task in wanted if task.id in matches}


def _pairs(before: Plan, now: Plan) -> list[tuple[PlanTask, PlanTask]]:
    old = {task.id: task for task in before.tasks}
    new = {task.id: task for task in now.tasks}
    pairs: list[tuple[PlanTask, PlanTask]] = []

    def pair(a: PlanTask, b: PlanTask) -> None:
        pairs.append((a, b))
        del old[a.id], new[b.id]

    for task in before.tasks:
        now_task = new.get(task.id)
        if now_task and ((task.named and now_task.named) or _bare(task) == _bare(now_task)):
            pair(task, now_task)
    headings = {phase.label: phase.title for phase in now.phases}
    old_headings = {phase.label: phase.title for phase in before.phases}
    by_text: dict[str, list[PlanTask]] = {}
    for task in new.values():
        by_text.setdefault(_bare(task), []).append(task)
    for task in list(old.values()):
        same = [candidate for candidate in by_text.get(_bare(task), ()) if candidate.id in new]
        if len(same) > 1:
            title = old_headings[task.phase]
            same = [candidate for candidate in same if headings[candidate.phase] == title]
        if len(same) == 1:
            pair(task, same[0])
    for task in list(old.values()):
        now_task = new.get(task.id)
        if now_task and not now_task.named and not task.named and _alike(task, now_task):
            pair(task, now_task)
    return pairs


def _bare(task: PlanTask) -> str:
    """Return the text without a tail that would be read as a commit id once the task is done."""
    return task_line.split_sentence(task.text, State.DONE).text


def _alike(task: PlanTask, now_task: PlanTask) -> bool:
    a, b = task.text[:_COMPARED], now_task.text[:_COMPARED]
    return difflib.SequenceMatcher(None, a, b, autojunk=False).ratio() >= _SIMILAR


_STOPPED: Final = frozenset({State.BLOCKED, State.FAILED, State.EVICTED})
_UNREADABLE: Final = "\ufffd"  # a byte that is not UTF-8: writing the text would replace it


def write_values(
    kind: Source, name: str, data: bytes, statuses: Mapping[str, Status]
) -> tuple[bytes, set[str]]:
    """Return the file with these statuses, and the ids of all its tasks."""
    if not statuses:
        return data, set()
    change = _change_story if kind is Source.PRD else _change_task
    return edit_objects(
        name,
        data,
        partial(prd.find_objects, kind),
        lambda id, members: change(members, statuses[id]) if id in statuses else (),
    )


def _change_story(members: Mapping[str, Node], status: Status) -> Iterator[Change]:
    for key, state in (("passes", State.DONE), ("skipped", State.SKIPPED)):
        spelling = find_spelling(members, key)
        if status.state is state or (spelling is not None and members[spelling].value is True):
            yield key, status.state is state
    spelling = find_spelling(members, "notes")
    present = "" if spelling is None else members[spelling].value
    if isinstance(present, str) and _UNREADABLE not in present:
        notes = prd.join_notes(present, _note(status))
        if notes != present:
            yield "notes", notes


def _note(status: Status) -> str:
    if status.state is State.DONE:
        return f"landed as {status.commit}" if status.commit else ""
    if status.state in _STOPPED:
        return f"{status.state}: {status.safe_note}".removesuffix(": ")
    return ""


def _change_task(members: Mapping[str, Node], status: Status) -> Iterator[Change]:
    spelling = find_spelling(members, "status")
    present = "" if spelling is None else members[spelling].value
    held = prd.STATUSES.get(str(present).lower(), State.BLOCKED)
    word = _word(status.state)
    if held is not prd.STATUSES[word]:
        # A task that is deferred or under review stays so while it is held back.
        yield "status", word


def _word(state: State) -> str:
    if state in RUNNING:
        return "in-progress"
    if state in _STOPPED:
        return "blocked"
    return {State.DONE: "done", State.SKIPPED: "cancelled"}.get(state, "pending")


BOX_FORMATS: Final = frozenset({Source.SPEC_KIT, Source.KIRO, Source.OPENSPEC, Source.SUPERPOWERS})


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
    for section in checklist.find_sections(lines):
        numbers.add(section.number)
        for at in section.steps if states.get(section.number) is State.DONE else ():
            step = checklist.STEP.match(lines[at])
            if step is not None and step[1] not in "xX":
                raw[at] = raw[at][: step.start(1)] + "x" + raw[at][step.end(1) :]
    return numbers


_COMMIT = re.compile(r"[0-9a-fA-F]{7,64}")


class MarkedPlan(Struct, frozen=True, kw_only=True):
    data: bytes
    gone: tuple[PlanTask, ...]  # as they were when the plan was read


def write_back(
    data: bytes, plan: Plan, statuses: Mapping[str, Status], trunk: str | None = None
) -> MarkedPlan:
    """Put statuses, by the ids of `plan`, into the file as it is now.

    `trunk` is the commit id for the checkpoint of every phase that this completes.
    """
    text = source.decode(data, Problems(plan.name))
    if text is None:
        return MarkedPlan(data=data, gone=_list_gone(plan, statuses, ()))
    if plan.source in prd.FORMATS:
        changed, there = write_values(plan.source, plan.name, data, statuses)
        return MarkedPlan(data=changed, gone=_list_gone(plan, statuses, there))
    if plan.source in BOX_FORMATS:
        return _write_boxes(text, plan, statuses)
    now = markdown.read(plan.name, data, ReaderOptions()).plan
    matches = match_tasks(plan, now, statuses)
    raw = list(text.raw)
    settled = {task.id for task in now.tasks if task.settled}
    complete_before = _complete(now, settled)
    for id, task in matches.items():
        status = statuses[id]
        _write_task(raw, task, status)
        settled.discard(task.id)
        if status.state in (State.DONE, State.SKIPPED):
            settled.add(task.id)
    if trunk is not None:
        for phase in _complete(now, settled).values():
            if phase.checkpoint is None or phase.label not in complete_before:
                _write_checkpoint(raw, phase, _checked(trunk))
    return MarkedPlan(
        data=source.encode(replace(text, raw=tuple(raw))),
        gone=_list_gone(plan, statuses, matches),
    )


def _list_gone(
    plan: Plan, statuses: Mapping[str, Status], there: Collection[str]
) -> tuple[PlanTask, ...]:
    return tuple(task for task in plan.tasks if task.id in statuses and task.id not in there)


def _write_boxes(text: source.SourceText, plan: Plan, statuses: Mapping[str, Status]) -> MarkedPlan:
    """Change the marks of a format whose tasks carry their own numbers."""
    raw = list(text.raw)
    states = {id: status.state for id, status in statuses.items()}
    there = write_marks(plan.source, raw, text.lines, states)
    return MarkedPlan(
        data=source.encode(replace(text, raw=tuple(raw))), gone=_list_gone(plan, statuses, there)
    )


def _complete(plan: Plan, settled: set[str]) -> dict[str, Phase]:
    open_phases = {task.phase for task in plan.tasks if task.id not in settled}
    return {phase.label: phase for phase in plan.phases if phase.label not in open_phases}


def _write_task(raw: list[str], task: PlanTask, status: Status) -> None:
    first, last = task.line - 1, task.last_line
    lines = "\n".join(raw[first:last])
    readable = source.without_surrogates(lines)
    box = task_line.find_box(readable)
    if box is None:
        return
    end = _end_of_text(readable, task.line)
    present = task_line.split_sentence(
        readable[box.end : end].replace("\n", " "), MARKS.get(box.mark, State.WAITING)
    )
    mark = _mark_of(status.state)
    same_mark = MARKS.get(mark) is present.status
    tail = _tail(status, present)
    start = box.end + present.end
    if "\n" in lines[start:end]:
        # It stands on a line of its own, and that line stays.
        start = end - len(lines[start:end].rpartition("\n")[2].lstrip())
        tail = tail and tail.lstrip()
    if tail is not None:
        lines = lines[:start] + tail + lines[end:]
    if not same_mark:
        lines = lines[: box.at] + mark + lines[box.at + len(box.mark) :]
    raw[first:last] = lines.split("\n")


def _mark_of(state: State) -> str:
    """Return the mark of a state; cancelled work is open, since only a person holds work back."""
    if state in RUNNING:
        return "~"
    if state in _STOPPED:
        return "!"
    return {State.DONE: "x", State.SKIPPED: "-"}.get(state, " ")


def _tail(status: Status, present: task_line.Sentence) -> str | None:
    """Return the new text behind a task; None to leave the present text."""
    mark = _mark_of(status.state)
    changed = MARKS[mark] is not present.status
    if mark == "x":
        if status.commit is None or status.commit == present.commit:
            return "" if changed else None
        return f" {_readable_commit(_checked(status.commit))}"
    if mark == "!":
        note = status.safe_note or _WITHOUT_A_NOTE.get(status.state, "")
        if not changed and note == present.note:
            return None
        return f" [BLOCKED: {note}]" if note else ""
    return "" if changed else None


_WITHOUT_A_NOTE: Final = {State.CANCELLED: "cancelled", State.EVICTED: "evicted"}


def _checked(commit: str) -> str:
    if not _COMMIT.fullmatch(commit):
        raise InputError(f"{commit[:80]!r} is no commit id; it takes 7 to 64 hexadecimal digits.")
    return commit


def _readable_commit(commit: str) -> str:
    """Mark a commit id that could be a word, or it would be read as part of the text."""
    return f"({commit})" if commit.isalpha() and len(commit) < 8 else commit


def _end_of_text(line: str, number: int) -> int:
    """Return where the text of a line ends, before comments at its end."""
    end = len(line.rstrip())
    for comment in reversed(find_in_paragraph(line, number)):
        if comment.end != end:
            break
        end = len(line[: comment.start].rstrip())
    return end


def _write_checkpoint(raw: list[str], phase: Phase, trunk: str) -> None:
    if not phase.heading:
        return
    line = raw[phase.line - 1]
    readable = source.without_surrogates(line)
    end = _end_of_text(readable, phase.line)
    hashes = readable[:end].rstrip("#")
    if hashes.endswith((" ", "\t")):
        # `## Phase 1 ##`: the last hashes only close the heading.
        end = len(hashes.rstrip())
    start, stop = task_line.find_checkpoint(readable[:end]) or (end, end)
    raw[phase.line - 1] = f"{line[:start]} [checkpoint: {trunk}]{line[stop:]}"
