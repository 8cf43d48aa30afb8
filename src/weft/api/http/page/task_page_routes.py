"""The views of a task: its log in pages, its change and its review."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import Field

from weft import bounds, git
from weft.api.fields import TaskNumber
from weft.api.http.page.html_answers import show_slowly
from weft.api.http.requests import Parts, identify, in_slow_thread, parts_of
from weft.errors import NotFound, Refused
from weft.gate.review_view import read_patch, read_review
from weft.model import Attempt, Event, Task
from weft.operations import reading
from weft.operations.identity import ADMIN, READ, WORK, Identity, has
from weft.page.markup import Html
from weft.page.review_page import DiffView, ReviewPage, render_review, render_task_diff
from weft.page.task_view import TABS, WINDOW, LogMatch, LogWindow, TaskView, render_task
from weft.project.site import agent_names
from weft.runs.attempt_output import TaskLog, read_prompt
from weft.runs.event_text import line as event_line
from weft.runs.task_diff import get_diff
from weft.store.messages import list_sent_to_task
from weft.store.tasks import list_attempts

router = APIRouter(prefix="/page", include_in_schema=False)

_MATCHES: Final = 100  # found lines that are shown
_EVENTS: Final = 500  # the latest
_MOST: Final = 5_000  # lines of a window
_BLOCK: Final = 2_000  # lines of a download at once

_CONTROL: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\ud800-\udfff]")

AttemptNumber = Annotated[int | None, Query(ge=1, le=bounds.NUMBER)]
Line = Annotated[int | None, Query(ge=1, le=bounds.NUMBER)]
OutputStream = Literal["stdout", "stderr"]


@router.get("/task/{id}/download")
async def download(
    request: Request,
    id: TaskNumber,
    attempt: AttemptNumber = None,
    stream: OutputStream = "stdout",
) -> Response:
    """The whole log of an attempt as text."""
    parts, who = parts_of(request), await identify(request, READ)

    def read() -> Iterator[str]:
        task = reading.get_task(parts.store, who, id)
        chosen = _choose(list_attempts(parts.store, id), attempt)
        if chosen is None:
            raise NotFound(f"Task {id} has no output yet.")
        log = _open_log(parts, task, stream)
        texts = (_CONTROL.sub("\ufffd", line.text) for line in log.read(chosen))
        return iter(lambda: "".join(f"{text}\n" for text in islice(texts, _BLOCK)), "")

    blocks = await in_slow_thread(request, read)
    return StreamingResponse(blocks, media_type="text/plain; charset=utf-8")


@router.get("/task/{id}")
@router.get("/task/{id}/{tab}")
async def task(
    request: Request,
    id: TaskNumber,
    tab: str = "log",
    attempt: AttemptNumber = None,
    stream: OutputStream = "stdout",
    first: Line = None,
    most: Annotated[int, Query(ge=1, le=_MOST)] = WINDOW,
    line: Line = None,
    q: Annotated[str, Query(max_length=200)] = "",
) -> Response:
    if tab not in TABS:
        raise NotFound(f"A task has no part {tab[:100]!r}.")
    parts = parts_of(request)
    start = max(1, line - most // 2) if line is not None and first is None else first

    def view(who: Identity, now: float) -> Html:
        explained = reading.explain(parts.store, who, id, now=now)
        chosen = _choose(explained.attempts, attempt)
        log = _open_log(parts, explained.task, stream)
        matches: list[LogMatch] = []
        window, more, prompt = None, 0, ""
        if chosen is not None and tab == "log":
            window = _read_window(parts, log, chosen, start, most, line)
            matches, more = _search(parts, log, chosen, q)
        elif chosen is not None and tab == "prompt":
            prompt = _read_prompt(log, chosen)
        may_act = has(who, ADMIN)
        return render_task(
            TaskView(
                explanation=explained,
                tab=tab,
                attempt=chosen,
                messages=list_sent_to_task(parts.store, id) if tab == "messages" else (),
                log=window,
                stream=stream,
                words=q,
                matches=matches,
                more_matches=more,
                prompt=prompt,
                event_lines=list(_event_lines(explained.events)) if tab == "events" else (),
                agents=agent_names(parts.project.root) if may_act else (),
                may_act=may_act,
                may_write=has(who, WORK),
                now=now,
            )
        )

    return await show_slowly(request, view)


def _choose(attempts: Iterable[Attempt], number: int | None) -> Attempt | None:
    """Return the attempt with this number, or the latest."""
    known = list(attempts)
    if number is None:
        return known[-1] if known else None
    for attempt in known:
        if attempt.number == number:
            return attempt
    raise NotFound(f"The task has no attempt {number}.")


def _open_log(parts: Parts, task: Task, stream: OutputStream) -> TaskLog:
    return TaskLog(project=parts.project, store=parts.store, task=task, stream=stream, raw=False)


def _read_prompt(log: TaskLog, attempt: Attempt) -> str:
    try:
        return read_prompt(log, attempt)
    except Refused as error:
        return str(error)


def _read_window(
    parts: Parts, log: TaskLog, attempt: Attempt, first: int | None, most: int, line: int | None
) -> LogWindow:
    try:
        page = parts.logs.find(attempt, log.stream).read(log, attempt, first, most)
    except Refused as error:
        return LogWindow(first=1, lines=(), total=0, problem=str(error))
    return LogWindow(
        first=page.first, lines=page.lines, total=page.total, target=line, at_end=first is None
    )


def _search(parts: Parts, log: TaskLog, attempt: Attempt, words: str) -> tuple[list[LogMatch], int]:
    """Return the first lines with these words, and the number of the others."""
    if not words:
        return [], 0
    lines = parts.logs.find(attempt, log.stream).search(log, attempt, words)
    try:
        first = [LogMatch(line=number, text=text) for number, text in islice(lines, _MATCHES)]
        return first, sum(1 for _ in lines)
    except Refused:
        return [], 0  # the window says why


def _event_lines(events: tuple[Event, ...]) -> Iterator[tuple[float, str]]:
    for event in reversed(events[-_EVENTS:]):
        text = event_line(event)
        if text is not None:
            yield event.at, text.strip()


Candidate = Annotated[str, Field(min_length=1, max_length=100)]
FilePath = Annotated[str | None, Query(max_length=4096)]
Number = Annotated[int, Query(ge=0, le=bounds.NUMBER)]


@router.get("/review/{id}")
async def review(
    request: Request,
    id: TaskNumber,
    path: FilePath = None,
    side: Literal["old", "new"] = "new",
    line: Number = 0,
    start: Number = 0,
    since: bool = False,
    unfold: FilePath = None,
) -> Response:
    parts = parts_of(request)

    def view(who: Identity, now: float) -> Html:
        return render_review(
            ReviewPage(
                review=read_review(parts.project, str(id)),
                place=None if path is None else (path, side, line),
                since_last=since,
                start=start,
                unfolded=unfold or "",
                may_act=has(who, ADMIN),
            )
        )

    return await show_slowly(request, view)


@router.get("/diff/{id}")
async def diff(
    request: Request, id: TaskNumber, start: Number = 0, unfold: FilePath = None
) -> Response:
    parts = parts_of(request)

    def view(who: Identity, now: float) -> Html:
        reading.get_task(parts.store, who, id)
        changes = get_diff(parts.project, str(id))
        compared = git.compare_trees(parts.project.root, changes.base, changes.commit)
        return render_task_diff(
            DiffView(
                task=id,
                name=changes.name,
                attempt=changes.attempt,
                commit=changes.commit,
                files=read_patch(changes.patch, compared),
                start=start,
                unfolded=unfold or "",
            )
        )

    return await show_slowly(request, view)
