"""The facts that each start reads: one request, where another host is home."""

from __future__ import annotations

from typing import Final

from weft.store.attempt_end import list_hops
from weft.store.event_log import history
from weft.store.gate import find_landed
from weft.store.messages import list_to_task
from weft.store.reviews import find_round
from weft.store.runs import get_run, get_settings
from weft.store.store import Question
from weft.store.tasks import get_task, list_attempts, list_needs, list_related_commits

_ABOUT_TASK: Final = (
    get_task,
    list_attempts,
    list_needs,
    list_related_commits,
    list_hops,
    find_round,
    list_to_task,
    history,
)
_ABOUT_RUN: Final = (get_run, get_settings, find_landed)


def list_questions(task: int, run: str | None) -> list[Question]:
    """List the questions of a start about its task and its run."""
    questions: list[Question] = [(verb, task) for verb in _ABOUT_TASK]
    if run is not None:
        questions += [(verb, run) for verb in _ABOUT_RUN]
    return questions
