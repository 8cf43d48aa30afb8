"""The plan in an agent's answer: alone, in a fence, or with prose around it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

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
