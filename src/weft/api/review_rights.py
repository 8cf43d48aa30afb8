"""Reviews for clients: every reader sees them, only an admin decides.

Agents have tokens that work, so that the right to work is not the right to accept work.
"""

from __future__ import annotations

import time

from weft.candidate_records import CommentDraft, Review, ReviewComment
from weft.errors import NotFound
from weft.gate.review_view import (
    ReviewItem,
    ReviewView,
    draft_comment,
    list_in_review,
    read_review,
)
from weft.model import CommentAnswer
from weft.project.project import Project
from weft.store import Store
from weft.store.reviews import (
    accept_review,
    answer_comment,
    remove_comment,
    send_back_review,
)
from weft.swarm.access import get_own_lease, get_visible_task
from weft.swarm.identity import ADMIN, READ, Identity, need


def list_visible(store: Store, who: Identity, project: Project) -> tuple[ReviewItem, ...]:
    """List the candidates in review that an identity may see."""
    need(who, READ)
    return tuple(item for item in list_in_review(project) if who.tenant in (None, item.tenant))


def read_visible(store: Store, who: Identity, project: Project, task: int) -> ReviewView:
    get_visible_task(store, who, task)
    return read_review(project, str(task))


def comment(
    store: Store, who: Identity, project: Project, candidate: str, draft: CommentDraft
) -> ReviewComment:
    need(who, ADMIN)
    return draft_comment(project, candidate, draft, now=time.time())


def remove(store: Store, who: Identity, candidate: str, number: int) -> None:
    need(who, ADMIN)
    remove_comment(store, candidate, number)


def send_round(store: Store, who: Identity, candidate: str) -> Review:
    need(who, ADMIN)
    return send_back_review(store, candidate, now=time.time())


def accept(store: Store, who: Identity, candidate: str) -> Review:
    need(who, ADMIN)
    return accept_review(store, candidate, now=time.time())


def answer(store: Store, who: Identity, fence: int, given: CommentAnswer) -> int:
    """Answer a comment on the work of the attempt that a fence belongs to; return its task."""
    lease = get_own_lease(store, who, fence, now=time.time())
    if lease.task is None or not answer_comment(store, fence, given):
        raise NotFound(f"The task has no comment {given.id} to answer.")
    return lease.task
