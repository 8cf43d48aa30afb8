"""Annotations that are written as plain lines under a task: `files: src/a.py`.

A key in small letters is an annotation. A key that may begin a sentence, such as `Files:` or
`**Check:**`, is an annotation if its value has the form of one. Every other known key is reported.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from typing import Final, NamedTuple

from msgspec import Struct, field

from weft.model import State
from weft.plan import task_line
from weft.plan.annotations import (
    Annotation,
    Comment,
    canonical_key,
    find_in_html,
    find_in_paragraph,
    read_comment,
    remove_comments,
)
from weft.plan.markdown_blocks import Block, ListItem, visit_blocks
from weft.plan.problems import Problems, shorten
from weft.plan.task_line import (
    MARKS,
    Checkbox,
    Heading,
    Sentence,
    has_box,
    report_lost_box,
    report_task_heading,
)

_LINE = re.compile(
    r"[ \t]*(?:[-*+][ \t]+)?(?P<bold>\*\*|__)?(?P<key>[A-Za-z][A-Za-z_-]{0,40}(?: on)?)"
    r"(?:(?P=bold))?:(?:(?P=bold))?(?:[ \t]+(?P<value>.*))?[ \t]*$"
)
_READ: Final = frozenset({"files", "depends", "check"})
_PROSE: Final = frozenset({"new"})
"""Keys that begin ordinary sentences; they count in comments only."""
_PATH = re.compile(r"`[^`]+`|\"[^\"]+\"|'[^']+'|[^\s`]+")
_REFERENCE = re.compile(r"(?:(?:task|phase)s?[ _#-]*)?[\w./:-]+", re.IGNORECASE)
_CODE = re.compile(r"`[^`]+`")
_COMMA = re.compile(r",(?=(?:[^\"]*\"[^\"]*\")*[^\"]*$)")
_OPENING: Final = len("<!--")


def is_plain_annotation(line: str) -> bool:
    """Tell whether a line begins with the key of an annotation."""
    match = _LINE.match(line)
    return match is not None and _key(match) is not None


def read_plain(line: str, number: int, problems: Problems) -> list[Annotation]:
    """Return the annotation of a line under a task; report a known key that is not read."""
    match = _LINE.match(line)
    key = _key(match) if match else None
    if match is None or key is None:
        return []
    value = (match["value"] or "").strip()
    if key not in _READ or not _fits(key, match["key"], value):
        report_plain(line, number, problems)
        return []
    if key == "check" and _CODE.fullmatch(value):
        value = value[1:-1]
    at = line.rindex(value) if value else len(line)
    body = f"{key}: {value}"
    # The places of a comment count from its opening; the value keeps its own place in the line.
    start = at - len(key) - 2 - _OPENING
    return read_comment(Comment(body, start, len(line), True, number, None), problems)


def report_plain(line: str, number: int, problems: Problems) -> None:
    """Report a plain line with a known key that is not read as an annotation."""
    match = _LINE.match(line)
    key = _key(match) if match else None
    if match is None or key is None:
        return
    problems.warn(
        (number, match.start("key") + 1),
        "plain-key",
        f"{match['key']!r} is read as prose here.",
        f"Write `<!-- {key}: … -->`, indented under its task, if it is an annotation.",
    )


def _key(match: re.Match[str]) -> str | None:
    word = match["key"].lower().removesuffix(" on")
    return None if word in _PROSE else canonical_key(word)


def _fits(key: str, written: str, value: str) -> bool:
    items = [item.strip() for item in _COMMA.split(value)]
    if key == "files":
        return all(_PATH.fullmatch(item) for item in items)
    if key == "depends":
        return all(_REFERENCE.fullmatch(item) for item in items)
    return bool(value) and (written.islower() or bool(_CODE.fullmatch(value)))


_BULLET = re.compile(r"[ \t]*(?:[-*+]|[0-9]{1,9}[.)])[ \t]+")
_LITERAL_HTML: Final = ("<pre", "<script", "<style", "<textarea")
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f\x7f]")


class FoundTask(NamedTuple):
    sentence: Sentence
    line: int  # counted from 1
    column: int
    last_line: int
    details: str
    notes: list[Annotation]


class Section(Struct, kw_only=True):
    """A heading and the tasks below it; a phase if there are tasks."""

    heading: Heading
    level: int  # 0 before the first heading
    line: int
    tasks: list[FoundTask] = field(default_factory=list)
    notes: list[Annotation] = field(default_factory=list)


def split_sections(lines: Sequence[str], problems: Problems) -> list[Section]:
    """Cut the file at its headings of the first two levels, and at every `Phase N:`."""
    walk = _Walk(lines, problems)
    visit_blocks(lines, walk.visit)
    return walk.sections


class _Walk:
    def __init__(self, lines: Sequence[str], problems: Problems) -> None:
        self._lines = lines
        self._problems = problems
        self.sections = [Section(heading=task_line.split_heading(""), level=0, line=1)]

    def visit(self, block: Block | ListItem) -> None:
        if isinstance(block, ListItem):
            self._item(block)
        elif block.type == "heading":
            self._heading(block)
        else:
            self._prose(block)

    def _heading(self, block: Block) -> None:
        hidden = find_in_paragraph(block.content, 1)
        heading = task_line.split_heading(remove_comments(block.content, hidden))
        if block.level <= 2 or heading.number is not None:
            line = block.first + 1
            self.sections.append(Section(heading=heading, level=block.level, line=line))
        if block.level > 1:
            report_task_heading(heading.written, block.first + 1, self._problems)
        for note in self._annotations(find_in_paragraph(self._lines[block.first], block.first + 1)):
            self._attach(note)

    def _item(self, item: ListItem) -> None:
        title = item.title
        box = task_line.find_box(self._lines[title.first]) if title else None
        if title is None or box is None or not self._is_task(title, box):
            self._report_lost(item)
            return
        self.sections[-1].tasks.append(self._task(item, title, box))
        self._report_unindented(item, title, box)
        if item.too_deep:
            self._problems.warn(
                (item.first + 1, 1),
                "too-deep",
                "The lists under this task are nested too deeply to look for annotations there.",
                "Put annotations directly under the task.",
            )

    def _prose(self, block: Block) -> None:
        """Read the annotations in a block between tasks."""
        if block.type == "fence":
            self._report_open_fence(block)
        elif block.type == "code":
            self._report_indented(block)
        else:
            for note in self._annotations(self._comments(block)):
                self._attach(note)
            self._report_prose(block)

    def _is_task(self, title: Block, box: Checkbox) -> bool:
        if box.mark in MARKS:
            return True
        after = self._lines[title.first][box.end :]
        begins_as_task = task_line.split_sentence(after, State.WAITING).prefixed
        if box.mark.strip() == "":
            self._problems.warn(
                (title.first + 1, box.at + 1),
                "odd-mark",
                f"[{box.mark}] is read as [ ], still to do.",
                "Write [ ].",
            )
            return True
        # `- [1] a footnote` is no task.
        if box.mark.isalnum() and not begins_as_task:
            return False
        self._problems.error(
            (title.first + 1, box.at + 1),
            "unknown-mark",
            f"The mark [{box.mark}] means nothing to weft.",
            "Write [ ] to do, [~] running, [x] done, [!] blocked or [-] skipped.",
        )
        return True

    def _task(self, item: ListItem, title: Block, box: Checkbox) -> FoundTask:
        last = self._end_of_text(title)
        text = self._lines[title.first]
        if last - title.first > 1:
            text = "\n".join(self._lines[title.first : last])
        comments = find_in_paragraph(text, title.first + 1)
        words = " ".join(remove_comments(text, comments)[box.end :].split())
        if not words.isprintable():
            words = _CONTROL.sub("�", words)
        sentence = task_line.split_sentence(words, MARKS.get(box.mark, State.WAITING))
        notes = self._annotations(comments) if comments else []
        annotated: set[int] = set()  # lines that hold nothing but annotations
        rest = Block("paragraph", last, max(title.last, last))
        for block in [rest, *item.blocks]:
            own = self._annotations(self._comments(block))
            if own and block.type == "html":
                annotated.update(range(block.first, block.last))
            notes.extend(own)
            for at in range(block.first, block.last) if block.type == "paragraph" else ():
                plain = read_plain(self._lines[at], at + 1, self._problems)
                annotated.update([at] if plain else [])
                notes.extend(plain)
        if not sentence.text:
            self._problems.error(
                (title.first + 1, box.end + 1),
                "empty-task",
                "This task has no text.",
                "Say what is to be done, or remove it.",
            )
        return FoundTask(
            sentence, title.first + 1, box.at, last, self._details(last, item, annotated), notes
        )

    def _end_of_text(self, title: Block) -> int:
        """Return the line behind the text; a line without indent is prose that follows it."""
        for at in range(title.first + 1, title.last):
            line = self._lines[at]
            if line[:1] not in (" ", "\t") or is_plain_annotation(line):
                return at
        return title.last

    def _details(self, first: int, item: ListItem, annotated: set[int]) -> str:
        if item.last - first <= len(annotated):
            return ""
        kept = [self._lines[at] for at in range(first, item.last) if at not in annotated]
        return _CONTROL.sub("�", textwrap.dedent("\n".join(kept))).strip("\n").rstrip()

    def _comments(self, block: Block) -> list[Comment]:
        if block.type == "html":
            start = block.content[:20]
            if not start.startswith("<!--") and start.lstrip().lower().startswith(_LITERAL_HTML):
                return []
            return find_in_html(self._lines[block.first : block.last], block.first + 1)
        if block.type == "paragraph" and "<!--" in block.content and block.content[0] != ">":
            text = "\n".join(self._lines[block.first : block.last])
            return find_in_paragraph(text, block.first + 1)
        return []

    def _annotations(self, comments: list[Comment]) -> list[Annotation]:
        notes: list[Annotation] = []
        for comment in comments:
            if not comment.closed:
                self._problems.error(
                    (comment.line, comment.column),
                    "unclosed-comment",
                    "This comment is never closed, and hides what follows.",
                    "Close it with -->.",
                )
            notes.extend(read_comment(comment, self._problems))
        return notes

    def _attach(self, note: Annotation) -> None:
        section = self.sections[-1]
        if not section.tasks or note.key == "execution":
            section.notes.append(note)
            return
        section.tasks[-1].notes.append(note)
        self._problems.warn(
            note.place,
            "not-indented",
            f"{note.key!r} is taken for the task above it, on line {section.tasks[-1].line}.",
            "Indent it under its task, or put it under the heading if it is for the phase.",
        )

    def _report_lost(self, item: ListItem) -> None:
        """Report a list item that looks like a task without a mark, and annotations inside it."""
        line = self._lines[item.first]
        code = {
            at
            for block in item.blocks
            if block.type in ("fence", "html")
            for at in range(block.first, block.last)
        }
        for at in range(item.first, item.last):
            if at not in code:
                report_lost_box(self._lines[at], at + 1, self._problems)
        bullet = _BULLET.match(line)
        if bullet and task_line.split_sentence(line[bullet.end() :], State.WAITING).number:
            self._problems.warn(
                (item.first + 1, bullet.end() + 1),
                "missing-mark",
                f"{shorten(line.strip())!r} has no mark, so it is read as prose.",
                "Write `- [ ]` before it if it is a task.",
            )
        blocks = [item.title, *item.blocks] if item.title else item.blocks
        for block in blocks:
            for note in self._annotations(self._comments(block)):
                self._problems.warn(
                    note.place,
                    "lost-annotation",
                    f"{note.key!r} is in a list item that is no task, and is ignored.",
                    "Write `- [ ]` before the item if it is a task.",
                )

    def _report_unindented(self, item: ListItem, title: Block, box: Checkbox) -> None:
        """Report boxes that Markdown counts to a task although they stand as far left as it."""
        own = self._lines[title.first][: box.at]
        indent = len(own) - len(own.lstrip())
        for at in range(title.first + 1, title.last):
            line = self._lines[at]
            if len(line) - len(line.lstrip()) <= indent:
                report_lost_box(line, at + 1, self._problems)

    def _report_prose(self, block: Block) -> None:
        """Report boxes and annotations that a block between tasks hides."""
        hidden = block.type == "html" and block.content.lstrip().startswith("<!--")
        for at in range(block.first, block.last) if not hidden else ():
            is_box = report_lost_box(self._lines[at], at + 1, self._problems)
            if not is_box and block.type == "paragraph" and self.sections[-1].tasks:
                report_plain(self._lines[at], at + 1, self._problems)

    def _report_open_fence(self, block: Block) -> None:
        closing = self._lines[block.last - 1].strip()
        if block.last - block.first < 2 or not closing.startswith(block.markup):
            self._problems.warn(
                (block.first + 1, 1),
                "unclosed-fence",
                "This code fence is never closed; everything behind it is read as code.",
                f"Close it with {block.markup[:10]}.",
            )

    def _report_indented(self, block: Block) -> None:
        for at in range(block.first, block.last):
            if has_box(self._lines[at]):
                self._problems.warn(
                    (at + 1, 1),
                    "indented-task",
                    "This line is indented so far that Markdown reads it as code.",
                    "Indent it by less than four columns if it is a task.",
                )
