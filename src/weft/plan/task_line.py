"""The line of a task and the heading of a phase: marks, numbers, commit ids, notes.

    - [x] Task 2: Create the config module 9f8e7d6
      mark  number text                    commit id

Every function takes a single paragraph. Positions are offsets into it, which write-back needs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from weft.model import State
from weft.plan.problems import Problems, shorten

MARKS: Final[Mapping[str, State]] = {
    " ": State.WAITING,
    "~": State.RUNNING,
    "x": State.DONE,
    "X": State.DONE,
    "!": State.BLOCKED,
    "-": State.SKIPPED,
}

# A bullet or number, then a box. A ticked box holds a character; people also write [] and [  ].
_BOX = re.compile(r"[ \t]*(?:(?:[-*+]|[0-9]{1,9}[.)])[ \t]+)?\[([^\]\[]{0,3})\](?=[ \t\n]|$)")
_NUMBER = r"(?P<number>[0-9]{1,9}(?:\.[0-9]{1,9})*[A-Za-z]?)"
_END_OF_PREFIX = r"[ \t]*(?:(?P<sep>:|[.)–—-](?=[ \t]|$))[ \t]*|$)"
_BOLD = r"(?P<bold>\*\*?|__?)?"
_END_OF_BOLD = r"(?P<closed>(?P=bold))?"
_TASK = re.compile(
    rf"{_BOLD}Task(?:[ \t]+#?{_NUMBER})?{_END_OF_BOLD}{_END_OF_PREFIX}(?:(?P=bold)[ \t]*)?",
    re.IGNORECASE,
)
# A phase may also be named by a letter or a Roman number.
_PHASE_NAME = r"(?P<number>[0-9]{1,9}(?:\.[0-9]{1,9})*[A-Za-z]?|[A-Za-z]|(?-i:[IVX]{2,5}))"
_PHASE = re.compile(
    rf"{_BOLD}Phase[ \t]+#?{_PHASE_NAME}{_END_OF_BOLD}{_END_OF_PREFIX}(?:(?P=bold)[ \t]*)?",
    re.IGNORECASE,
)
_HEADING_MARK = re.compile(r"\[[^\]\[]{0,3}\][ \t]+")
_HEX = re.compile(r"[0-9a-fA-F]{7,64}")
_COMMIT = re.compile(r"[ \t](?P<open>[(\[`]?)(?P<id>[0-9a-fA-F]{7,64})(?P<close>[)\]`]?)$")
_SKIPPED = re.compile(r"[ \t]*\(skipped(?::[ \t]*([^()]*))?\)$", re.IGNORECASE)
_BLOCKED = re.compile(r"\[blocked(?::|(?=\]))", re.IGNORECASE)
# No tail is longer than this; looking only so far keeps a line of megabytes cheap.
_LONGEST_TAIL: Final = 1000
COMMIT_LENGTH: Final = 9
"""The digits of a commit id that weft writes behind a landed task."""
_LANDED = re.compile(
    rf"(?<=\S)[ \t](?=[0-9a-f]*[0-9])(?=[0-9a-f]*[a-f])(?P<id>[0-9a-f]{{{COMMIT_LENGTH}}})$"
)
# Behind such a word a commit id is what the task is about.
_ABOUT_COMMIT = re.compile(
    r"(?:^|[ \t(])(?:commits?|revert|pick|cherry-pick|backport|bisect|apply|merge|rebase|see|"
    r"after|against|and|as|at|before|by|for|from|in|into|of|on|onto|or|since|than|to|until|with|"
    r"base|hash|head|id|rev|revision|sha|tag|version)[:,]?$",
    re.IGNORECASE,
)
_PAIRS: Final = {"": "", "(": ")", "[": "]", "`": "`"}

# Headings under which people tick off results, not work.
_NO_WORK: Final = re.compile(
    r"(?:success|acceptance|completion|exit|done|quality) criteria|definition of done|"
    r"acceptance (?:tests?|checks?)|out of scope|non-?goals|(?:review |final )?checklist|"
    r"prerequisites|open questions|risks",
    re.IGNORECASE,
)
_MANUAL: Final = ("manual verification", "manually verify", "verify manually")


class Checkbox(NamedTuple):
    """The `[ ]` of a list item."""

    mark: str  # the text inside
    at: int  # where that begins
    end: int  # behind the bracket


class Sentence(NamedTuple):
    """The text behind the box of a task."""

    number: str | None
    text: str
    prefixed: bool  # whether it began with `Task`
    status: State
    commit: str | None
    note: str
    end: int  # where the text ends and the commit id or note may stand


class Heading(NamedTuple):
    """The heading of a phase."""

    number: str | None
    title: str
    written: str  # all of it but the checkpoint
    checkpoint: str | None


def find_box(line: str) -> Checkbox | None:
    """Find the box of a list item; None if it has none."""
    match = _BOX.match(line)
    return match and Checkbox(match[1], match.start(1), match.end())


def split_sentence(text: str, status: State) -> Sentence:
    """Split `Task 2: text 9f8e7d6` into its parts; `status` is the mark of the box."""
    end, status_said, commit, note = _tail(text, status)
    prefix = _TASK.match(text, 0, end)
    if prefix is not None and not (prefix["sep"] or prefix["number"]):
        prefix = None
    rest = _rest(text[:end], prefix) if prefix else text[:end].strip()
    if commit and not rest:
        # If only hexadecimal digits are left, they are the text.
        end, status_said, commit, note = len(text.rstrip()), status, None, ""
        rest = _rest(text[:end], prefix) if prefix else text[:end].strip()
    number = _plain_number(prefix["number"]) if prefix else None
    kept = None if status_said is State.WAITING else commit
    return Sentence(number, rest, prefix is not None, status_said, kept, note, end)


def split_heading(text: str) -> Heading:
    span = find_checkpoint(text)
    written = text[: span[0]] if span else text
    checkpoint = text[span[0] : span[1]].strip(" \t[]").partition(":")[2].strip() if span else ""
    name = written
    if mark := _HEADING_MARK.match(name):
        name = name[mark.end() :]
    prefix = _PHASE.match(name)
    return Heading(
        number=_plain_number(prefix["number"]) if prefix else None,
        title=_rest(name, prefix) if prefix else name.strip(),
        written=written.strip(),
        checkpoint=checkpoint if _HEX.fullmatch(checkpoint) else None,
    )


def find_checkpoint(text: str) -> tuple[int, int] | None:
    """Return where `[checkpoint: …]` stands in a heading, with the blanks before it."""
    end = len(text.rstrip())
    start = text.rfind("[", 0, end)
    if start < 0 or not text.endswith("]", 0, end):
        return None
    if text[start + 1 : end].partition(":")[0].strip().lower() != "checkpoint":
        return None
    return len(text[:start].rstrip()), end


def asks_for_a_person(text: str) -> bool:
    """Return whether the words of a task make it a manual step."""
    words = text.casefold()
    return "manual" in words and any(phrase in " ".join(words.split()) for phrase in _MANUAL)


def is_no_work(title: str) -> bool:
    """Tell whether a heading is about results, not work: `Success criteria`."""
    return _NO_WORK.fullmatch(title.strip(" \t:*_")) is not None


def _tail(text: str, status: State) -> tuple[int, State, str | None, str]:
    """Take the commit id, `(SKIPPED)` or `[BLOCKED: why]` off the end of a task's text."""
    end = len(text.rstrip())
    if status is State.BLOCKED:
        return _blocked_tail(text, end)
    commit = None
    note = ""
    if status is State.WAITING and (match := _landed_at(text, end)):
        return match.start(), status, match["id"], ""
    if status is State.DONE:
        # Either may come first: `… 9f8e7d6 (SKIPPED)` or `… (SKIPPED) 9f8e7d6`.
        for _ in range(2):
            if match := _skipped_at(text, end):
                status, note = State.SKIPPED, (match[1] or "").strip()
                end = len(text[: match.start()].rstrip())
            elif commit is None and (match := _commit_at(text, end)):
                commit = match["id"]
                end = len(text[: match.start()].rstrip())
    return end, status, commit, note


def _blocked_tail(text: str, end: int) -> tuple[int, State, str | None, str]:
    if text.endswith("]", 0, end):
        notes = [*_BLOCKED.finditer(text, max(0, end - _LONGEST_TAIL), end)]
        if notes:
            why = text[notes[-1].end() : end - 1].strip()
            return len(text[: notes[-1].start()].rstrip()), State.BLOCKED, None, why
    return end, State.BLOCKED, None, ""


def _skipped_at(text: str, end: int) -> re.Match[str] | None:
    if not text.endswith(")", 0, end):
        return None
    start = text.rfind("(", max(0, end - _LONGEST_TAIL), end)
    return _SKIPPED.match(text, start, end) if start >= 0 else None


def _commit_at(text: str, end: int) -> re.Match[str] | None:
    match = _COMMIT.search(text, max(0, end - 70), end)
    if match is None or _PAIRS[match["open"]] != match["close"]:
        return None
    # A bare word such as "defaced" is English; with a digit in it, it is a commit id.
    if not match["open"] and len(match["id"]) < 8 and match["id"].isalpha():
        return None
    return match


def _landed_at(text: str, end: int) -> re.Match[str] | None:
    """Find the id that weft wrote behind a landed task whose box a person opened again."""
    first = max(0, end - _LONGEST_TAIL)
    match = _LANDED.search(text, first, end)
    if match is None or _ABOUT_COMMIT.search(text, first, match.start()):
        return None
    return match


def _plain_number(number: str | None) -> str | None:
    """Write a number in its plain form: 01 is 1, and 2.03b is 2.3B."""
    if number is None or number.isdigit():
        return number and str(int(number))
    if number.isalpha():
        return number.upper()
    letter = number[-1].upper() if number[-1].isalpha() else ""
    digits = number[:-1] if letter else number
    return ".".join(str(int(part)) for part in digits.split(".")) + letter


def _rest(text: str, prefix: re.Match[str]) -> str:
    rest = text[prefix.end() :]
    bold = prefix["bold"]
    # `**Task 1: text**`: the emphasis opened in the prefix.
    if bold and not prefix["closed"] and not prefix[0].rstrip().endswith(bold):
        rest = rest.replace(bold, "", 1)
    return rest.strip()


_BULLET = r"(?:[-*+•–][ \t]*|[0-9]{1,9}[.)][ \t]*)?"
# The brackets of a link or a definition hold no mark.
_LIKE_A_BOX = re.compile(
    rf"[ \t>|]*(?P<bullet>{_BULLET})"
    r"(?P<box>\[[^\]\[0-9]{0,3}\](?![(\[:])|[☐☑☒✅✓✔⬜🔲])[ \t]*(?P<text>.*)"
)
_TASK_HEADING = re.compile(r"[*_]*Task[ \t]+#?[0-9]", re.IGNORECASE)
_SIGNS: Final = frozenset("☐☑☒✅✓✔⬜🔲")
_DONE_SIGNS: Final = frozenset("☑☒✅✓✔")
_CURE: Final = "Write `- [ ] what to do`, with a blank before and behind the box, at the left edge."


def has_box(line: str) -> bool:
    """Tell whether a line begins like a task."""
    match = _LIKE_A_BOX.match(line)
    return match is not None and (bool(match["bullet"]) or not _is_prose(match))


def report_lost_box(line: str, number: int, problems: Problems) -> bool:
    """Report a line outside every task that begins with a box; return whether it does."""
    match = _LIKE_A_BOX.match(line)
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
    return match["box"] in _DONE_SIGNS or bool(inside and inside not in MARKS)


def _is_surely_a_task(line: str, match: re.Match[str]) -> bool:
    inside = match["box"][1:-1]
    known = match["box"] in _SIGNS or not inside.strip() or inside in MARKS
    return known and bool(match["text"]) and line[:1] not in (" ", "\t", ">", "|")


def _better(match: re.Match[str]) -> str:
    if match["text"].startswith("*"):
        return "Remove the `*` behind the box; `--format kiro` reads it as optional."
    inside = match["box"][1:-1]
    if match["box"] not in _SIGNS and inside.strip() and inside not in MARKS:
        return "Write [ ] to do, [~] running, [x] done, [!] held back or [-] skipped."
    return _CURE
