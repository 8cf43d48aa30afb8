"""Lines that look like tasks and are not read as tasks: each is reported, so that no task vanishes.

A number in brackets is a footnote, and a box inside a code fence or an HTML comment is an example.
"""

from __future__ import annotations

import re
from typing import Final

from weft.plan import task_line
from weft.plan.problems import Problems, shorten

_BULLET = r"(?:[-*+•–][ \t]*|[0-9]{1,9}[.)][ \t]*)?"
# The brackets of a link or a definition hold no mark.
_BOX = re.compile(
    rf"[ \t>|]*(?P<bullet>{_BULLET})"
    r"(?P<box>\[[^\]\[0-9]{0,3}\](?![(\[:])|[☐☑☒✅✓✔⬜🔲])[ \t]*(?P<text>.*)"
)
_TASK_HEADING = re.compile(r"[*_]*Task[ \t]+#?[0-9]", re.IGNORECASE)
_SIGNS: Final = frozenset("☐☑☒✅✓✔⬜🔲")
_DONE_SIGNS: Final = frozenset("☑☒✅✓✔")
_CURE: Final = "Write `- [ ] what to do`, with a blank before and behind the box, at the left edge."


def has_box(line: str) -> bool:
    """Tell whether a line begins like a task."""
    match = _BOX.match(line)
    return match is not None and (bool(match["bullet"]) or not _is_prose(match))


def report_lost_box(line: str, number: int, problems: Problems) -> bool:
    """Report a line outside every task that begins with a box; return whether it does."""
    match = _BOX.match(line)
    if match is None or not has_box(line):
        return False
    column = match.start("box") + 1
    shown = shorten(line.strip())
    if _is_surely_a_task(line, match):
        problems.error(
            (number, column), "unread-task", f"{shown!r} is not read as a task.", _better(match)
        )
    else:
        problems.warn(
            (number, column),
            "unread-task",
            f"{shown!r} has a box, but is not in a list at the left edge, so it is no task.",
            _better(match),
        )
    return True


def report_task_heading(text: str, line: int, problems: Problems) -> None:
    """Report a heading such as `### Task 6`, which is prose in a plan whose tasks are boxes."""
    if _TASK_HEADING.match(text):
        problems.warn(
            (line, 1),
            "task-heading",
            f"The heading {shorten(text)!r} is not read as a task.",
            "Write `- [ ] Task 6: what to do`; a plan whose tasks are all headings with "
            "`**Files:**` lists is read with `--format superpowers`.",
        )


def _is_prose(match: re.Match[str]) -> bool:
    """Return whether a line without a bullet begins with a word in brackets or a sign."""
    inside = match["box"][1:-1].strip()
    return match["box"] in _DONE_SIGNS or bool(inside and inside not in task_line.MARKS)


def _is_surely_a_task(line: str, match: re.Match[str]) -> bool:
    inside = match["box"][1:-1]
    known = match["box"] in _SIGNS or not inside.strip() or inside in task_line.MARKS
    return known and bool(match["text"]) and line[:1] not in (" ", "\t", ">", "|")


def _better(match: re.Match[str]) -> str:
    if match["text"].startswith("*"):
        return "Remove the `*` behind the box; `--format kiro` reads it as optional."
    inside = match["box"][1:-1]
    if match["box"] not in _SIGNS and inside.strip() and inside not in task_line.MARKS:
        return "Write [ ] to do, [~] running, [x] done, [!] held back or [-] skipped."
    return _CURE
