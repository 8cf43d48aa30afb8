"""The view of present work: working, testing, in review, waiting, parked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final
from urllib.parse import urlencode

from msgspec import Struct

from weft.formats import clock, first_line
from weft.page.act_forms import select
from weft.page.markup import Html, article, escaped, link, since, state_tag, tag
from weft.store.overview import TaskAtWork
from weft.words import task_label

GROUPS: Final = (
    "needs you",
    "working",
    "in review",
    "testing",
    "offered",
    "ready",
    "waiting",
    "parked",
    "paused",
)
"""The words of the states that are shown, in their order."""
PAGE: Final = 200  # rows of a group at once


class WorkRow(Struct, frozen=True, kw_only=True):
    """A task that has not ended."""

    task: TaskAtWork
    word: str  # of its state
    doing: str = ""  # the last tool call or words of its agent
    heard: float | None = None  # its agent's last sign of life
    waits: str = ""  # the causes of its wait


class NowView(Struct, frozen=True, kw_only=True):
    rows: Sequence[WorkRow]  # that match the filter
    counts: Mapping[str, int]  # of all rows, by word
    runs: Sequence[str]  # unended
    run: str = ""
    state: str = ""
    words: str = ""  # the search
    more: int | None = None  # rows left out; the next page starts there
    start: int = 0
    now: float


def render_now(view: NowView) -> Html:
    return article(
        "Now",
        _filter(view),
        *(_group(word, view) for word in GROUPS),
        None if view.rows else tag("p", _empty(view), class_="dim"),
        _pages(view),
    )


def _empty(view: NowView) -> str:
    if view.run or view.state or view.words:
        return "No task matches the filter."
    return "No task is under way."


def _filter(view: NowView) -> Html:
    states = [
        ("", "every state"),
        *((word, f"{word} ({view.counts[word]})") for word in GROUPS if view.counts.get(word)),
    ]
    return tag(
        "form",
        tag(
            "label",
            "Search",
            tag("input", type="search", name="q", id="now-search", value=view.words, maxlength=200),
        ),
        select("state", "State", states, view.state),
        select("run", "Run", [("", "every run"), *((run, run) for run in view.runs)], view.run),
        data_address="now",
        class_="filter",
        role="search",
    )


def _group(word: str, view: NowView) -> Html | None:
    rows = [row for row in view.rows if row.word == word]
    if not rows:
        return None
    total = view.counts.get(word, len(rows))
    heading = f"{word.capitalize()} ({total})"
    body = Html("".join(_row(row, view.now) for row in rows))
    caption = tag("caption", f"Tasks: {word}", class_="unseen")
    return tag(
        "section",
        tag("h2", heading),
        tag("div", tag("table", caption, _HEAD, tag("tbody", body)), class_="card scroll"),
        id=f"now-{word.replace(' ', '-')}",
    )


_HEAD: Final = Html(
    '<thead><tr><th scope="col">Task</th><th scope="col">State</th><th scope="col">Agent</th>'
    '<th scope="col">Now</th><th scope="col" class="r">For</th></tr></thead>'
)


def _row(row: WorkRow, now: float) -> str:
    """Write a row as text: there may be thousands of them."""
    task = row.task
    label = escaped(task_label(task.id, task.run, task.name))
    state = "blocked" if row.word == GROUPS[0] else task.state
    again = f' <span class="dim">attempt {task.attempt}</span>' if task.attempt > 1 else ""
    begun = task.since if task.started is None else task.started
    return (
        f'<tr id="task-{task.id}" data-row><td><a class="id" href="#/task/{task.id}">{label}</a> '
        f"{escaped(task.title)}</td><td>{state_tag(row.word, state)}</td>"
        f"<td>{escaped(_agent(task))}{again}</td><td>{''.join(_doing(row, now))}</td>"
        f'<td class="r n">{since(begun, now)}</td></tr>'
    )


def _agent(task: TaskAtWork) -> str:
    stage = f", {task.stage}" if task.stage not in (None, task.agent) else ""
    return f"{task.agent or ''}{stage}"


def _doing(row: WorkRow, now: float) -> Iterator[str]:
    if row.waits:
        yield escaped(row.waits)
    elif row.word.startswith("parked") and row.task.until is not None:
        yield escaped(f"until {clock(row.task.until)}")
    if row.task.started is None:
        return
    if row.doing:
        yield f"<code>{escaped(first_line(row.doing))}</code> "
    if row.heard is not None:
        yield f'<span class="dim">heard {since(row.heard, now)} ago</span>'
    elif not row.doing:
        yield '<span class="dim">nothing heard yet</span>'


def _pages(view: NowView) -> Html | None:
    if view.more is None and not view.start:
        return None
    query = urlencode({"q": view.words, "state": view.state, "run": view.run})
    before = (
        link(f"now?{query}&start={max(0, view.start - PAGE)}", "Earlier") if view.start else None
    )
    after = None if view.more is None else link(f"now?{query}&start={view.more}", "More tasks")
    return tag("p", before, " ", after, class_="pages")
