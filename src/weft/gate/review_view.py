"""A candidate as a person reviews it: its changes, those since the last round, and the comments."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from weft import git
from weft.attempt.outcome import is_settings
from weft.candidate_records import CommentDraft, Entry, GateRows, Review, ReviewComment
from weft.config import command_line
from weft.errors import InputError, Refused, WeftError
from weft.formats import duration
from weft.gate.merge import EntryConflict, combine
from weft.git.object_store import open_object_store
from weft.git.trees import SYMLINK, ChangeKind, FileChange, find_file, make_patch
from weft.model import Task
from weft.paths import matches
from weft.project.project import Project
from weft.runs.progress import CLAIMS_EXTENDED, list_outside
from weft.runs.task_names import get_named_task
from weft.store import Store
from weft.store.event_log import list_of_kind
from weft.store.gate import read_gate
from weft.store.reviews import add_comment, list_comments, list_open_reviews, list_reviews
from weft.store.server_operations import hosted
from weft.store.tasks import find_tasks, get_task
from weft.words import describe_task, full_label, task_state

_MOST_LINES: Final = 100
"""Lines that a comment may be about."""
_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@(.*)")
_START = re.compile(r"^diff --git ", re.MULTILINE)


class ReviewItem(Struct, frozen=True, kw_only=True):
    """A candidate in a list of those in review."""

    task: int
    name: str  # as people call it
    title: str
    run: str
    tenant: str
    candidate: str
    round: int
    since: float


class EarlierComment(Struct, frozen=True, kw_only=True):
    """A comment of the last round, and its place in this candidate."""

    comment: ReviewComment
    line: int | None  # None: the line is gone


class ReviewView(Struct, frozen=True, kw_only=True):
    item: ReviewItem
    base: str
    tree: str
    summary: str  # by the agents
    check: str
    tokens: int
    micro_usd: int
    attempts: int
    files: tuple[DiffFile, ...]
    outside: tuple[str, ...]  # of these files, those outside the files of its tasks
    since_last_round: tuple[DiffFile, ...]  # empty in the first round
    earlier: tuple[EarlierComment, ...]  # comments of the last round
    drafts: tuple[ReviewComment, ...]


@hosted("read")
def list_in_review(project: Project) -> list[ReviewItem]:
    with project.open_store() as store:
        return [_item(store, review) for review in list_open_reviews(store)]


@hosted("read")
def read_review(project: Project, name: str) -> ReviewView:
    """Read the candidate of a task or story in review."""
    with project.open_store() as store:
        return _read(project.root, store, _get_open(store, get_named_task(store, name)))


@hosted("write")
def draft_comment(
    project: Project, candidate: str, draft: CommentDraft, *, now: float
) -> ReviewComment:
    """Add a draft; its quoted text is read from the candidate."""
    with project.open_store() as store:
        reviews = [review for review in list_open_reviews(store) if review.entry == candidate]
        if not reviews:
            return add_comment(store, candidate, draft, now=now)  # which tells the reason
        quoted = _quote(project.root, store, reviews[0], draft)
        return add_comment(store, candidate, replace(draft, quoted=quoted), now=now)


def _quote(root: Path, store: Store, review: Review, draft: CommentDraft) -> str:
    if not draft.path:
        return ""
    _merge(root, review.base, _entry(read_gate(store, review.run), review))
    text = find_file(root, review.base if draft.side == "old" else review.tree, draft.path)
    lines = [] if text is None else text.split("\n")
    last = draft.last or draft.line
    if text is None or last > len(lines):
        place = f"line {last} of {draft.path}" if draft.line else draft.path
        raise InputError(f"Candidate {review.entry} has no {place} on the {draft.side} side.")
    if not draft.line <= last < draft.line + _MOST_LINES:
        raise InputError(f"A comment is about 1 to {_MOST_LINES} lines, not {draft.lines}.")
    quoted = lines[draft.line - 1 : last] if draft.line else []
    return "\n".join(line.removesuffix("\r") for line in quoted)


def _get_open(store: Store, task: Task) -> Review:
    number = task.id if task.story is None else task.story
    reviews = list_reviews(store, number) or list_reviews(store, task.id)
    if not reviews or reviews[-1].state != "open":
        raise Refused(
            f"{describe_task(task)} is {task_state(task)}, not in review; "
            f"`weft diff {full_label(task)}` shows its changes."
        )
    return reviews[-1]


def _item(store: Store, review: Review) -> ReviewItem:
    task = get_task(store, review.task)
    return ReviewItem(
        task=task.id,
        name=full_label(task),
        title=task.request.title or task.text.partition("\n")[0],
        run=review.run,
        tenant=task.tenant,
        candidate=review.entry,
        round=review.round,
        since=review.opened,
    )


def _read(root: Path, store: Store, review: Review) -> ReviewView:
    gate = read_gate(store, review.run)
    entry = _entry(gate, review)
    if _merge(root, review.base, entry) != review.tree:
        raise WeftError(f"Candidate {review.entry} no longer merges as it was checked.")
    tasks, attempts = find_tasks(store, [*entry.tasks, review.task])
    last = _find_last(store, review)
    files = _compare(root, review.base, review.tree)
    return ReviewView(
        item=_item(store, review),
        base=review.base,
        tree=review.tree,
        summary="\n\n".join(task.result.strip() for task in tasks if task.result.strip()),
        check=_describe_check(gate, review),
        tokens=sum(attempt.tokens for attempt in attempts),
        micro_usd=sum(attempt.micro_usd for attempt in attempts),
        attempts=len(attempts),
        files=files,
        outside=_find_outside(store, review, entry, files),
        since_last_round=_compare_rounds(root, gate, last, review),
        earlier=_place_comments(root, store, last, review),
        drafts=tuple(list_comments(store, review.entry)),
    )


def _find_outside(
    store: Store, review: Review, entry: Entry, files: Sequence[DiffFile]
) -> tuple[str, ...]:
    claimed = list_outside(list_of_kind(store, review.run, CLAIMS_EXTENDED))
    patterns = [each for each, tasks in claimed.items() if {*tasks} & {*entry.tasks}]
    paths = [file.path for file in files]
    return tuple(path for path in paths if any(matches(pattern, path) for pattern in patterns))


def _find_last(store: Store, review: Review) -> Review | None:
    """Return the last earlier round that was sent back."""
    rounds = list_reviews(store, review.task)
    sent = [old for old in rounds if old.round < review.round and old.state == "sent_back"]
    return sent[-1] if sent else None


def _compare_rounds(
    root: Path, gate: GateRows, last: Review | None, review: Review
) -> tuple[DiffFile, ...]:
    """Compare a candidate with that of the last round, merged on the same base.

    Work of other tasks that landed in between is in neither side, unless the old candidate does not
    merge on the new base.
    """
    if last is None:
        return ()
    entry = _entry(gate, last)
    old = _merge(root, review.base, entry) or _merge(root, last.base, entry) or last.tree
    return _compare(root, old, review.tree)


def _place_comments(
    root: Path, store: Store, last: Review | None, review: Review
) -> tuple[EarlierComment, ...]:
    if last is None:
        return ()
    return tuple(
        EarlierComment(comment=comment, line=_find_place(root, review, comment))
        for comment in list_comments(store, last.entry)
    )


def _find_place(root: Path, review: Review, comment: ReviewComment) -> int | None:
    if not comment.path or not comment.line:
        return comment.line
    tree = review.base if comment.side == "old" else review.tree
    return find_line(find_file(root, tree, comment.path), comment.line, comment.quoted)


def _describe_check(gate: GateRows, review: Review) -> str:
    verdicts = [
        verdict
        for verdict in gate.verdicts
        if verdict.passed and verdict.combination == (review.entry,) and verdict.checked
    ]
    if not verdicts:
        return "no check is configured"
    commands = ", ".join(f"`{command_line(command)}`" for command in verdicts[-1].commands)
    return f"{commands} passed in {duration(verdicts[-1].seconds)}"


def _entry(gate: GateRows, review: Review) -> Entry:
    return next(entry for entry in gate.entries if entry.id == review.entry)


def _merge(root: Path, base: str, entry: Entry) -> str | None:
    """Merge a candidate on a base; return the tree, or None if they conflict.

    The tree was merged before, but `git gc` may have removed it while it waited for a person.
    """
    with open_object_store(root) as objects:
        steps = combine(objects, base, [entry])
    return None if isinstance(steps, EntryConflict) else steps[-1][-1].tree


def _compare(root: Path, old: str, new: str) -> tuple[DiffFile, ...]:
    """Return the changed files, weft's own settings first: they decide about later runs."""
    files = read_patch(make_patch(root, old, new), git.compare_trees(root, old, new))
    return tuple(sorted(files, key=lambda file: not is_settings(file.path)))


class DiffLine(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A line of a hunk; a removed line has only an old number, an added line only a new one."""

    old: int | None = None
    new: int | None = None
    text: str

    @property
    def sign(self) -> str:
        return "+" if self.old is None else "-" if self.new is None else " "


class DiffHunk(Struct, frozen=True, kw_only=True):
    section: str  # text behind the second @@
    lines: tuple[DiffLine, ...]


class DiffFile(Struct, frozen=True, kw_only=True):
    path: str
    kind: str  # added, edited, deleted, renamed, retyped
    source: str | None  # of a rename: the path before
    binary: bool
    hunks: tuple[DiffHunk, ...]
    mode: str = ""  # a change of its mode or type, for people: `now executable`, `a link`


def read_patch(patch: bytes, changes: Iterable[FileChange]) -> tuple[DiffFile, ...]:
    """Read a patch; `changes` are the paths of the same comparison, in the same order.

    Paths in a patch are quoted by rules of git, so they are not read from it.
    """
    parts = iter(_split(patch.decode("utf-8", "replace")))
    return tuple(
        _read_file(change, [next(parts) for _ in range(_count_parts(change))]) for change in changes
    )


def _split(text: str) -> list[str]:
    """Split a patch at its files; lines of contents never start with `diff`."""
    starts = [match.start() for match in _START.finditer(text)]
    return [text[start:end] for start, end in pairwise([*starts, len(text)])]


def _count_parts(change: FileChange) -> int:
    """Return the number of parts of a change; git shows a new type as a deletion and an
    addition."""
    return 2 if change.kind is ChangeKind.RETYPED else 1


def _read_file(change: FileChange, parts: Sequence[str]) -> DiffFile:
    lines = [line for part in parts for line in part.split("\n")]
    return DiffFile(
        path=change.path,
        kind=change.kind.value,
        source=change.source,
        binary="GIT binary patch" in lines,
        hunks=tuple(_read_hunks(lines)),
        mode=_describe_mode(change),
    )


def _describe_mode(change: FileChange) -> str:
    """Name a mode that is not that of a plain file, or that the change gave or took."""
    if change.new_mode == SYMLINK:
        return "a link"
    was, now = (bool(mode & 0o100) for mode in (change.old_mode, change.new_mode))
    if now and not was:
        return "executable" if change.kind is ChangeKind.ADDED else "now executable"
    return "no longer executable" if was and change.new_mode else ""


def _read_hunks(lines: Iterable[str]) -> Iterator[DiffHunk]:
    section: str | None = None
    shown: list[DiffLine] = []
    old = new = 0
    for line in lines:
        if match := _HUNK.fullmatch(line):
            if section is not None:
                yield DiffHunk(section=section, lines=tuple(shown))
            section, shown = match[3].strip(), []
            old, new = int(match[1]), int(match[2])
        elif section is not None and line[:1] in (" ", "+", "-"):
            sign = line[0]
            numbers = {"old": None if sign == "+" else old, "new": None if sign == "-" else new}
            shown.append(DiffLine(**numbers, text=line[1:].removesuffix("\r")))
            old += sign != "+"
            new += sign != "-"
    if section is not None:
        yield DiffHunk(section=section, lines=tuple(shown))


def find_line(text: str | None, line: int, quoted: str) -> int | None:
    """Return the place nearest to `line` that has the quoted lines; None if there is none.

    An empty line is only found in its own place.
    """
    lines = [] if text is None else [own.removesuffix("\r") for own in text.split("\n")]
    wanted = quoted.split("\n")
    if line > 0 and lines[line - 1 : line - 1 + len(wanted)] == wanted:
        return line
    if not quoted.strip():
        return None
    places = [
        place
        for place, own in enumerate(lines, 1)
        if own == wanted[0] and lines[place - 1 : place - 1 + len(wanted)] == wanted
    ]
    return min(places, key=lambda place: (abs(place - line), place), default=None)
