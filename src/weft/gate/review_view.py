"""A candidate as a person reviews it: its changes, those since the last round, and the comments."""

from __future__ import annotations

from collections.abc import Sequence
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
from weft.gate.review_diff import DiffFile, find_line, read_patch
from weft.git.object_store import open_object_store
from weft.git.trees import find_file, make_patch
from weft.model import Task
from weft.paths import matches
from weft.project.project import Project
from weft.runs.control import describe_task
from weft.runs.progress import CLAIMS_EXTENDED, list_outside
from weft.runs.task_names import get_named_task
from weft.store import Store
from weft.store.event_log import list_of_kind
from weft.store.gate import read_gate
from weft.store.reviews import add_comment, list_comments, list_open_reviews, list_reviews
from weft.store.server_operations import hosted
from weft.store.tasks import find_tasks, get_task
from weft.words import full_label, task_state

_MOST_LINES: Final = 100
"""Lines that a comment may be about."""


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
