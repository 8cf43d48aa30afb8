"""Reviews for clients: every reader sees them, only an admin decides.

Agents have tokens that work, so that the right to work is not the right to accept work.
"""

from __future__ import annotations

import time

from weft.errors import NotFound
from weft.gate.review_view import (
    ReviewItem,
    ReviewView,
    list_in_review,
    read_review,
)
from weft.model import CommentAnswer
from weft.operations.identity import READ, Identity, get_own_lease, get_visible_task, need
from weft.project.project import Project
from weft.store import Store
from weft.store.reviews import (
    answer_comment,
)


def list_visible(store: Store, who: Identity, project: Project) -> tuple[ReviewItem, ...]:
    need(who, READ)
    return tuple(list_in_review(project))


def read_visible(store: Store, who: Identity, project: Project, task: int) -> ReviewView:
    get_visible_task(store, who, task)
    return read_review(project, str(task))


def answer(store: Store, who: Identity, fence: int, given: CommentAnswer) -> int:
    """Answer a comment on the work of the attempt that a fence belongs to; return its task."""
    lease = get_own_lease(store, who, fence, now=time.time())
    if lease.task is None or not answer_comment(store, fence, given):
        raise NotFound(f"The task has no comment {given.id} to answer.")
    return lease.task
