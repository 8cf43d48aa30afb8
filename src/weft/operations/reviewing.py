"""The operations on a candidate in review."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from weft import bounds
from weft.candidate_records import CommentDraft, ReviewComment
from weft.errors import InputError, NotFound
from weft.gate.review_view import draft_comment
from weft.model import CommentAnswer
from weft.operations.identity import ADMIN, OWN, get_own_lease
from weft.operations.registry import Occasion, operation
from weft.operations.steering import Number
from weft.store import reviews

Line = Annotated[int, Meta(ge=0, le=bounds.NUMBER)]


class CandidateAsked(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    candidate: Annotated[str, Meta(min_length=1, max_length=100, description="Its id.")]


class CommentWritten(CandidateAsked, frozen=True, kw_only=True, forbid_unknown_fields=True):
    text: Annotated[str, Meta(max_length=bounds.COMMENT)] = ""
    path: Annotated[
        str, Meta(max_length=4096, description="The file; empty: the candidate as a whole.")
    ] = ""
    side: Annotated[
        Literal["old", "new"], Meta(description="old: a line that the candidate removes.")
    ] = "new"
    line: Annotated[Line, Meta(description="0: the whole file.")] = 0
    last: Annotated[Line, Meta(description="The last line of several; 0: a single line.")] = 0


class CommentRemoved(CandidateAsked, frozen=True, kw_only=True, forbid_unknown_fields=True):
    comment: Number


class CommentAnswered(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    comment: Annotated[Number, Meta(description="Its number, from your prompt.")]
    answer: Annotated[
        Literal["handled", "answered"],
        Meta(description="handled: you changed the work; answered: you left it, and say why."),
    ]
    reason: Annotated[str, Meta(min_length=1, max_length=bounds.COMMENT)]
    fence: Annotated[
        Number | None,
        Meta(
            description="The fence you were given with the task. Leave it out if weft started "
            "you: then it is your own task's."
        ),
    ] = None


class AnsweredResult(Struct, frozen=True, kw_only=True):
    task: int
    comment: int
    answer: str


class ReviewResult(Struct, frozen=True, kw_only=True):
    text: str
    candidate: str
    comment: ReviewComment | None = None


@operation("Comment on a candidate", ADMIN, on_repository=True)
def comment(setting: Occasion, asked: CommentWritten) -> ReviewResult:
    """Add a draft of a comment. The agent gets it when the round is sent."""
    draft = CommentDraft(
        text=asked.text, path=asked.path, side=asked.side, line=asked.line, last=asked.last
    )
    made = draft_comment(setting.project, asked.candidate, draft, now=setting.now)
    text = "The comment is kept; send the round when it is complete."
    return ReviewResult(text=text, candidate=asked.candidate, comment=made)


@operation("Answer a comment", OWN, says=lambda done: f"Comment {done.comment} is {done.answer}.")
def answer_comment(setting: Occasion, asked: CommentAnswered) -> AnsweredResult:
    """Mark a person's comment on your work as handled, or answer it with a reason."""
    fence = asked.fence or setting.who.fence
    if fence is None:
        raise InputError("Say which task, by the fence you were given with it.")
    lease = get_own_lease(setting.store, setting.who, fence, now=setting.now)
    given = CommentAnswer(id=asked.comment, answer=asked.answer, reason=asked.reason)
    if lease.task is None or not reviews.answer_comment(setting.store, fence, given):
        raise NotFound(f"The task has no comment {given.id} to answer.")
    return AnsweredResult(task=lease.task, comment=asked.comment, answer=asked.answer)


@operation("Remove a comment", ADMIN)
def remove_comment(setting: Occasion, asked: CommentRemoved) -> ReviewResult:
    """Delete a draft of a comment."""
    reviews.remove_comment(setting.store, asked.candidate, asked.comment)
    return ReviewResult(text="The comment is removed.", candidate=asked.candidate)


@operation("Send a review round", ADMIN)
def send_round(setting: Occasion, asked: CandidateAsked) -> ReviewResult:
    """Send the drafts to the agent as one round; refused for a candidate that is not shown."""
    sent = reviews.send_back_review(setting.store, asked.candidate, now=setting.now)
    return ReviewResult(text=f"Round {sent.round} goes to the agent.", candidate=asked.candidate)


@operation("Accept a candidate", ADMIN)
def accept_candidate(setting: Occasion, asked: CandidateAsked) -> ReviewResult:
    """Let a candidate land; refused for a candidate that is not shown."""
    reviews.accept_review(setting.store, asked.candidate, now=setting.now)
    text = f"Candidate {asked.candidate} is accepted and goes to the gate."
    return ReviewResult(text=text, candidate=asked.candidate)
