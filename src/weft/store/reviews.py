"""Reviews by a person: a candidate that passed its checks waits until it is accepted or sent back.

A decision names its candidate and is refused for another. An accepted entry queues to land as any
other entry: the gate checks it again only if trunk has moved.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from weft import bounds
from weft.candidate_records import CommentDraft, Review, ReviewComment, ReviewRound
from weft.errors import InputError, NotFound, Refused, StaleFence
from weft.model import CommentAnswer
from weft.paths import conflicts, quote
from weft.store import ready, row_records
from weft.store.claims import give_up
from weft.store.database import Row, Transaction
from weft.store.entries import back_to_its_maker
from weft.store.row_records import get_task_row
from weft.store.store import reads, writes

_MOST_COMMENTS = 500


@reads
def list_open_reviews(tx: Transaction) -> list[Review]:
    return [row_records.review(row) for row in tx.all("open_reviews")]


@reads
def list_reviews(tx: Transaction, task: int) -> list[Review]:
    """List the reviews of a task or story in order."""
    return [row_records.review(row) for row in tx.all("reviews_of_task", task=task)]


@reads
def list_comments(tx: Transaction, entry: str) -> list[ReviewComment]:
    return [row_records.comment(row) for row in tx.all("comments", entry=entry)]


@writes
def add_comment(tx: Transaction, entry: str, draft: CommentDraft, *, now: float) -> ReviewComment:
    """Add a draft to an open review."""
    _get_open(tx, entry)
    if len(tx.all("comments", entry=entry)) >= _MOST_COMMENTS:
        raise Refused(f"Candidate {entry} has {_MOST_COMMENTS} comments already; send them first.")
    _add(tx, entry, draft, now=now)
    return row_records.comment(tx.all("comments", entry=entry)[-1])


@writes
def remove_comment(tx: Transaction, entry: str, comment: int) -> None:
    """Delete a draft of an open review."""
    _get_open(tx, entry)
    if not tx.count("drop_comment", entry=entry, id=comment):
        raise NotFound(f"Candidate {entry} has no comment {comment}.")


@writes
def replace_comments(
    tx: Transaction, entry: str, drafts: Sequence[CommentDraft], *, now: float
) -> None:
    """Replace all drafts of an open review."""
    _get_open(tx, entry)
    if len(drafts) > _MOST_COMMENTS:
        raise InputError(f"A round has at most {_MOST_COMMENTS} comments, not {len(drafts)}.")
    tx.run("drop_comments", entry=entry)
    for draft in drafts:
        _add(tx, entry, draft, now=now)


def _add(tx: Transaction, entry: str, draft: CommentDraft, *, now: float) -> None:
    if not draft.text.strip():
        raise InputError("A comment needs words.")
    if len(draft.text) > bounds.COMMENT:
        raise InputError(f"A comment has at most {bounds.COMMENT:,} characters.")
    text, quoted = tx.redact(draft.text.strip()), tx.redact(draft.quoted)
    tx.run("add_comment", draft, entry=entry, text=text, quoted=quoted, at=now)


@writes
def accept_review(tx: Transaction, entry: str, *, now: float) -> Review:
    """Let a candidate in review land. The same call again changes nothing."""
    review = _find(tx, entry)
    if review.state == "accepted":
        return review
    _require_open(tx, review)
    tx.run("end_review", entry=entry, state="accepted", now=now)
    tx.run("queue_again", id=entry)
    for task in _tasks_of(tx, review):
        tx.run("set_reason", id=task["id"], reason="", now=now)
    tx.event(
        "review_accepted", get_task_row(tx, review.task), now=now, entry=entry, round=review.round
    )
    tx.wake()
    return _find(tx, entry)


@writes
def send_back_review(tx: Transaction, entry: str, *, now: float) -> Review:
    """Send the comments on a candidate to its agent, as a round. It counts as no failure.

    A subtask whose files have no comment keeps its candidate, unless a comment names no file.
    """
    review = _get_open(tx, entry)
    comments = list_comments(tx, entry)
    if not comments:
        raise InputError("There is no comment to send: write one, or accept the candidate.")
    tasks = _tasks_of(tx, review)
    tx.run("end_review", entry=entry, state="sent_back", now=now)
    tx.event(
        "review_sent_back", get_task_row(tx, review.task), now=now, entry=entry, round=review.round
    )
    reason = f"round {review.round} of your review: {len(comments)} to handle"
    for task in _commented(tasks, comments):
        back_to_its_maker(tx, task)
        if task["story"] is not None:
            give_up(tx, task)
        ready.send_back(tx, task, now=now, reason=reason)
    return _find(tx, entry)


def _commented(tasks: Sequence[Row], comments: Sequence[ReviewComment]) -> Sequence[Row]:
    """Return the tasks whose files the comments name; all tasks if a comment names none of them."""
    chosen: dict[int, Row] = {}
    for comment in comments:
        path = quote(comment.path)
        owners = [
            task
            for task in tasks
            if path and any(conflicts(path, file) for file in row_records.files(task["files"]))
        ]
        chosen |= {task["id"]: task for task in owners or tasks}
    return list(chosen.values())


@reads
def find_round(tx: Transaction, task: int) -> ReviewRound | None:
    """Return the round that was sent back to a task; None if its last review ended otherwise."""
    row = get_task_row(tx, task)
    reviews = list_reviews(tx, task if row["story"] is None else row["story"])
    if not reviews or reviews[-1].state != "sent_back":
        return None
    last = reviews[-1]
    entry = tx.one("entry", id=last.entry, run=last.run)
    assert entry is not None
    return ReviewRound(
        round=last.round,
        candidates=tuple(commit for commit, _ in row_records.entry(entry).work),
        comments=tuple(list_comments(tx, last.entry)),
    )


@writes
def answer_comment(tx: Transaction, fence: int, answer: CommentAnswer) -> bool:
    """Record the answer of a running attempt; return False if its round has no such comment."""
    lease = tx.one("lease", fence=fence)
    if lease is None or lease["task"] is None or lease["state"] == "released":
        raise StaleFence(f"Fence {fence} does not belong to a running attempt.")
    return record_answers(tx, lease["task"], [answer]) > 0


def record_answers(tx: Transaction, task: int, answers: Sequence[CommentAnswer]) -> int:
    """Record an agent's answers to the comments of its round; return the number of comments that
    it has."""
    row = get_task_row(tx, task)
    reviews = list_reviews(tx, task if row["story"] is None else row["story"])
    if not reviews or reviews[-1].state != "sent_back":
        return 0
    entry = reviews[-1].entry
    return sum(
        tx.count(
            "answer_comment",
            entry=entry,
            id=answer.id,
            answer=answer.answer,
            reason=tx.redact(answer.reason[: bounds.COMMENT]),
        )
        for answer in answers
    )


def _tasks_of(tx: Transaction, review: Review) -> list[Row]:
    entry = tx.one("entry", id=review.entry, run=review.run)
    assert entry is not None
    return [get_task_row(tx, int(number)) for number in json.loads(entry["tasks"])]


def _find(tx: Transaction, entry: str) -> Review:
    row = tx.one("review", entry=entry)
    if row is None:
        raise NotFound(f"There is no review of a candidate {entry}.")
    return row_records.review(row)


def _get_open(tx: Transaction, entry: str) -> Review:
    review = _find(tx, entry)
    _require_open(tx, review)
    return review


def _require_open(tx: Transaction, review: Review) -> None:
    if review.state == "open":
        return
    label = row_records.label(get_task_row(tx, review.task))
    word = {"sent_back": "sent back"}.get(review.state, review.state)
    newer = list_reviews(tx, review.task)[-1]
    cure = (
        f"now candidate {newer.entry} is in review; `weft review {label}` shows it"
        if newer.state == "open"
        else f"`weft why {label}` tells where the task is"
    )
    raise Refused(f"Candidate {review.entry} of {label} was {word}: {cure}.")
