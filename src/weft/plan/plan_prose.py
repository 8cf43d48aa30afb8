"""The prose of a plan.md that every agent reads: before the first phase, and before its tasks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from weft.plan.plan_records import Plan

LONGEST: Final = 6_000  # characters of the plan's own prose
LONGEST_PHASE: Final = 2_000
_LONGEST_IN_ALL: Final = 60_000

_COMMENTS = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_BLANK_LINES = re.compile(r"\n[ \t]*(?:\n[ \t]*)+\n")


def clean_prose(lines: Sequence[str]) -> str:
    """Return lines without comments, which are weft's, and without control characters."""
    text = _CONTROL.sub("�", _COMMENTS.sub("", "\n".join(lines)))
    return _BLANK_LINES.sub("\n\n", text).strip()


def shorten_prose(text: str, most: int) -> str:
    """Keep the beginning of a text, up to the end of a line where there is one."""
    if len(text) <= most:
        return text
    kept = text[:most]
    return (kept[: kept.rfind("\n")] if "\n" in kept[most // 2 :] else kept).rstrip() + "\n[…]"


def collect_prose(plan: Plan) -> dict[str, str]:
    """Return the prose of a plan under "", and that of each phase under its title, all bounded."""
    phases = {phase.title: phase.prose for phase in plan.phases if phase.title}
    return dict(_bounded({"": plan.description, **phases}))


def _bounded(texts: Mapping[str, str]) -> Iterable[tuple[str, str]]:
    room = _LONGEST_IN_ALL
    for title, text in texts.items():
        kept = shorten_prose(text.strip(), LONGEST_PHASE if title else LONGEST)
        room -= len(kept)
        if kept and room >= 0:
            yield title, kept


_BOX = re.compile(r"[ \t]{0,3}(?:[-*+]|[0-9]{1,9}[.)])[ \t]+\[[ x~!-]\]")
_FENCE = re.compile(r"[ ]{0,3}(`{3,}|~{3,})(.*)$")
_HEADING = re.compile(r"#{1,3}[ \t]")
_COMMENT: Final = "<!--"


def find_plan(answer: str) -> str | None:
    """Return the plan in an answer, without a fence and prose around it; None without a task.

    A fence that holds tasks counts before tasks outside any fence; of several such fences, the
    last counts. Of the prose before the plan, nothing remains; a title and the text below it
    belong to the plan.
    """
    lines = answer.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    fenced = [block for block in _fenced_blocks(lines) if _has_task(block)]
    plan = fenced[-1] if fenced else _without_prose(lines)
    return "\n".join(plan).strip("\n") + "\n" if _has_task(plan) else None


def _has_task(lines: Sequence[str]) -> bool:
    return any(_BOX.match(line) for line in lines)


def _fenced_blocks(lines: Sequence[str]) -> Iterator[list[str]]:
    """Yield the content of each outer fence; a fence that is never closed ends with the text."""
    mark = ""
    block: list[str] = []
    for line in lines:
        fence = _FENCE.match(line)
        if not mark:
            if fence:
                mark, block = fence[1], []
        elif fence and fence[1].startswith(mark) and not fence[2].strip():
            yield block
            mark = ""
        else:
            block.append(line)
    if mark:
        yield block


def _without_prose(lines: Sequence[str]) -> list[str]:
    starts = [number for number, line in enumerate(lines) if _HEADING.match(line)]
    boxes = [number for number, line in enumerate(lines) if _BOX.match(line)]
    if not boxes:
        return []
    first = min((start for start in starts if start < boxes[0]), default=boxes[0])
    return list(lines[first : _end(lines, boxes[-1])])


def _end(lines: Sequence[str], last_box: int) -> int:
    """Return the end of the last task: the next paragraph that is not indented."""
    for number in range(last_box + 1, len(lines)):
        line = lines[number]
        follows_blank = not lines[number - 1].strip()
        if line.strip() and follows_blank and not line.startswith((" ", "\t", _COMMENT)):
            return number
    return len(lines)


PLACEHOLDER: Final = "Replace this by the "
"""The beginning of the tasks of the template."""

TEMPLATE: Final = """\
# Title of the plan

Say here what the plan is for. Every agent reads this text before its task.

<!-- A phase is a heading. Its tasks run one after the other unless it is parallel; then tasks
     whose files differ run at the same time. A phase comes after all earlier phases. -->

## Phase 1: Setup
<!-- execution: parallel -->

<!-- A task is a line with a box. Its first sentence is its title; the agent gets all of it, and
     the lines below it. Name in `files` the paths and globs that the task changes: a task without
     them runs alone. -->

- [ ] Task 1: Replace this by the first task. Say how it is known to be done.
  <!-- files: src/first.py, tests/test_first.py -->
  - Details are lines below the task.
- [ ] Task 2: Replace this by the second task
  <!-- files: docs/first.md; depends: task1 -->

<!-- More keys of a task: `check: make test` (a command that its work has to pass), `agent: human`
     (you do it), `priority: high`, `budget: $3, 30m`. docs/plans.md has all of them.

     weft plan check FILE    reports problems, and predicts the time
     weft run FILE           runs the plan, and ticks the boxes -->
"""
