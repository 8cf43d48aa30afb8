"""Write-back of task states into a plan (ruling 10), and into a plan.md above all.

Changes the mark, the commit id and the note of a task, and the checkpoint of a complete phase; all
other bytes stay. The file may have been edited since the plan was read: `task_match` finds the
tasks again, and missing tasks are reported, never put back.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from weft.errors import InputError
from weft.model import State
from weft.plan import box_marks, html_comments, json_marks, markdown, source, task_line, task_match
from weft.plan.plan_records import Phase, Plan, PlanTask, ReaderOptions
from weft.plan.problems import Problems
from weft.plan.task_line import MARKS
from weft.plan.task_status import Status

_MARK_OF: Final[Mapping[State, str]] = {
    State.WAITING: " ",
    State.READY: " ",
    State.OFFERED: " ",
    State.RUNNING: "~",
    State.PARKED: "~",
    State.PAUSED: "~",
    State.GATING: "~",
    State.DONE: "x",
    State.BLOCKED: "!",
    State.FAILED: "!",
    State.CANCELLED: " ",  # a new run does it; only a person holds work back
    State.EVICTED: "!",
    State.SKIPPED: "-",
}
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
    if plan.source in json_marks.FORMATS:
        changed, there = json_marks.write_values(plan.source, plan.name, data, statuses)
        return MarkedPlan(data=changed, gone=_list_gone(plan, statuses, there))
    if plan.source in box_marks.FORMATS:
        return _write_boxes(text, plan, statuses)
    now = markdown.read(plan.name, data, ReaderOptions()).plan
    matches = task_match.match_tasks(plan, now, statuses)
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
    there = box_marks.write_marks(plan.source, raw, text.lines, states)
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
    mark = _MARK_OF[status.state]
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


def _tail(status: Status, present: task_line.Sentence) -> str | None:
    """Return the new text behind a task; None to leave the present text."""
    mark = _MARK_OF[status.state]
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
    for comment in reversed(html_comments.find_in_paragraph(line, number)):
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
