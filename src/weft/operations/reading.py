"""The questions: tasks, runs, limits, costs and reviews, as far as an identity may see them."""

from __future__ import annotations

from collections import Counter, deque
from typing import Annotated, Any, Final

from msgspec import Meta, Struct

from weft import bounds
from weft.errors import InputError
from weft.gate.review_view import ReviewItem, ReviewView, list_in_review, read_review
from weft.model import Attempt, Filter, Limit, Run, State, Task, TaskKind, Wait
from weft.operations.identity import OWN, READ, Identity, get_visible_task, need
from weft.operations.member_records import Page
from weft.operations.registry import Occasion, operation
from weft.runs import explanation, task_list
from weft.runs.attempt_output import LogLine, TaskLog
from weft.runs.explanation import Explanation, RankPlace, explain_task
from weft.runs.task_diff import TaskDiff, get_diff
from weft.runs.task_list import RunCost
from weft.store import Store, summaries
from weft.store.limit_table import list_limits
from weft.store.runs import get_run, page_runs
from weft.store.store import reads
from weft.store.tasks import list_run
from weft.store.team_rows import TeamView

MOST: Final = 500
"""Tasks on a page, at most."""

LONGEST_PAGE: Final = 200
_LINES: Final = 10_000  # lines of a log at once, at most

Number = Annotated[int, Meta(ge=1, le=bounds.NUMBER)]
RunId = Annotated[str, Meta(min_length=1, max_length=200, description="A run's id.")]
After = Annotated[
    str, Meta(min_length=1, max_length=200, description="The `after` of the page before.")
]
Most = Annotated[int, Meta(ge=1, le=LONGEST_PAGE, description="How many at once.")]
TaskNumber = Annotated[Number, Meta(description="A task's number.")]


class NothingAsked(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class PageAsked(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    after: After | None = None
    most: Most = 50


class RunAsked(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: RunId


class CostAsked(PageAsked, frozen=True, kw_only=True, forbid_unknown_fields=True):
    run: Annotated[str, Meta(max_length=200)] | None = None


class QueueAsked(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    most: Most = 100


class OneTaskAsked(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    task: TaskNumber


class OwnTaskAsked(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    task: Annotated[
        Number | None,
        Meta(description="Its number. Left out: the task that weft started you for."),
    ] = None


class LogAsked(OneTaskAsked, frozen=True, kw_only=True, forbid_unknown_fields=True):
    attempt: Number | None = None
    stderr: bool = False
    raw: bool = False
    most: Annotated[int, Meta(ge=1, le=_LINES)] = 1000


class RunPage(Struct, frozen=True, kw_only=True):
    runs: tuple[Run, ...]
    after: str | None  # for the next page; null: this was the last


class RunState(Struct, frozen=True, kw_only=True):
    run: Run
    tasks: dict[str, int]  # number of tasks by state


class LimitList(Struct, frozen=True, kw_only=True):
    limits: tuple[Limit, ...]


class QueuedTask(Struct, frozen=True, kw_only=True):
    task: int
    run: str | None
    name: str
    waits: tuple[Wait, ...]


class QueuedEntry(Struct, frozen=True, kw_only=True):
    run: str
    entry: str
    state: str
    tasks: tuple[int, ...]


class Queue(Struct, frozen=True, kw_only=True):
    ready: tuple[QueuedTask, ...]
    count: int  # of ready tasks
    gates: tuple[QueuedEntry, ...]  # the first entries, by run


class CostPage(Struct, frozen=True, kw_only=True):
    runs: tuple[RunCost, ...]
    after: str | None  # for the next page; null: this was the last


class ReviewList(Struct, frozen=True, kw_only=True):
    reviews: tuple[ReviewItem, ...]


class Why(Struct, frozen=True, kw_only=True):
    """The state of a task, and its causes."""

    task: int
    state: State
    since: float
    reason: str
    until: float | None
    waits: tuple[Wait, ...]
    place: RankPlace | None
    attempts: tuple[Attempt, ...]
    team: TeamView | None


class LogLines(Struct, frozen=True, kw_only=True):
    lines: tuple[LogLine, ...]
    truncated: bool  # there was more before these


@operation("List runs", READ, http="GET /runs", says=lambda page: f"{len(page.runs)} run(s).")
def get_runs(setting: Occasion, asked: PageAsked) -> RunPage:
    """Runs, newest first; `after` of the answer is for the next page."""
    runs, more = page_runs(setting.store, after=asked.after, most=asked.most)
    return RunPage(runs=tuple(runs), after=more)


@operation(
    "Show a run",
    READ,
    http="GET /runs/{id}",
    says=lambda shown: f"Run {shown.run.id} is {shown.run.state}.",
)
def get_run_state(setting: Occasion, asked: RunAsked) -> RunState:
    """A run, and how many of its tasks are in each state."""
    run = get_run(setting.store, asked.id)
    work = [t for t in list_run(setting.store, asked.id) if t.request.kind is TaskKind.WORK]
    return RunState(run=run, tasks=dict(Counter(task.state.value for task in work)))


@operation("List limits", READ, http="GET /limits", says=lambda all: f"{len(all.limits)} limits.")
def limits(setting: Occasion, _asked: NothingAsked) -> LimitList:
    """Every limit, its use and its owner. Not in pages: there are as many as runs, workers and
    agent files at work."""
    return LimitList(limits=tuple(list_limits(setting.store, now=setting.now)))


@operation("Show the queue", READ, http="GET /queue", says=lambda seen: f"{seen.count} ready.")
def queue(setting: Occasion, asked: QueueAsked) -> Queue:
    """The next tasks with their waits, and the next entries: the first of each, without pages,
    since the order changes all the time."""
    view = explanation.read_queue(setting.store, now=setting.now, most=asked.most)
    return Queue(
        ready=tuple(
            QueuedTask(task=task.id, run=task.run, name=task.name, waits=tuple(waits))
            for task, waits in view.ready
        ),
        count=view.count,
        gates=tuple(
            QueuedEntry(run=entry.run, entry=entry.id, state=entry.state, tasks=tuple(entry.tasks))
            for entry in view.entries[: asked.most]
        ),
    )


@operation(
    "Show costs", READ, http="GET /cost", says=lambda page: f"Costs of {len(page.runs)} run(s)."
)
def cost(setting: Occasion, asked: CostAsked) -> CostPage:
    """Tokens and micro-dollars of runs, their tasks and agents.

    A single run, or runs newest first; `after` of the answer is for the next page. Tasks without a
    run come with the last page. Of each run, the tasks with the highest cost are listed.
    """
    if asked.run is not None:
        get_run(setting.store, asked.run)
        return CostPage(runs=(task_list.get_run_cost(setting.store, asked.run),), after=None)
    costs, more = task_list.page_run_costs(setting.store, after=asked.after, most=asked.most)
    return CostPage(runs=tuple(costs), after=more)


@operation(
    "List work in review",
    READ,
    http="GET /reviews",
    says=lambda listed: f"{len(listed.reviews)} candidate(s) in review.",
    on_repository=True,
)
def get_reviews(setting: Occasion, _asked: NothingAsked) -> ReviewList:
    """List the candidates that wait for a person's review, the longest waiting first."""
    return ReviewList(reviews=tuple(list_in_review(setting.project)))


@operation(
    "Show work in review",
    OWN,
    http="GET /tasks/{task}/review",
    says=lambda view: (
        f"Candidate {view.item.candidate} of {view.item.name}, round {view.item.round}."
    ),
    on_repository=True,
)
def get_review(setting: Occasion, asked: OneTaskAsked) -> ReviewView:
    """Show the candidate of a task in review: its changes as hunks, the changes since the last
    round, the comments of that round with their answers, and the drafts."""
    get_visible_task(setting.store, setting.who, asked.task)
    return read_review(setting.project, str(asked.task))


def _explain_waits(why: Why) -> str:
    causes = "; ".join(wait.text for wait in why.waits[:5])
    return f"Task {why.task} is {why.state}: {causes or why.reason or 'nothing holds it up'}."


@operation("Why a task waits", OWN, http="GET /tasks/{task}/why", says=_explain_waits)
def why(setting: Occasion, asked: OwnTaskAsked) -> Why:
    """Explain the state of a task and its waits."""
    number = asked.task or setting.who.task
    if number is None:
        raise InputError("Say which task, by its number.")
    explained = explain(setting.store, setting.who, number, now=setting.now)
    task = explained.task
    return Why(
        task=task.id,
        state=task.state,
        since=task.since,
        reason=task.reason,
        until=task.until,
        waits=tuple(explained.waits),
        place=explained.place,
        attempts=tuple(explained.attempts),
        team=explained.team,
    )


@operation(
    "Show the output of a task",
    OWN,
    http="GET /tasks/{task}/logs",
    says=lambda log: f"{len(log.lines)} line(s).",
    on_repository=True,
)
def logs(setting: Occasion, asked: LogAsked) -> LogLines:
    """The last lines that an attempt's agent printed; without a number, of the latest attempt."""
    task = get_visible_task(setting.store, setting.who, asked.task)
    log = TaskLog(
        project=setting.project,
        store=setting.store,
        task=task,
        stream="stderr" if asked.stderr else "stdout",
        raw=asked.raw,
    )
    kept = tuple(deque(log.read(log.get_attempt(asked.attempt)), maxlen=asked.most + 1))
    return LogLines(lines=kept[-asked.most :], truncated=len(kept) > asked.most)


@operation(
    "Show the change of a task",
    OWN,
    http="GET /tasks/{task}/diff",
    says=lambda diff: diff.patch.decode(errors="replace"),
    on_repository=True,
)
def diff(setting: Occasion, asked: OneTaskAsked) -> TaskDiff:
    """The change of a task, landed or not."""
    get_visible_task(setting.store, setting.who, asked.task)
    return get_diff(setting.project, str(asked.task))


def list_tasks(
    store: Store, who: Identity, which: Filter, *, after: int = 0, most: int = 100
) -> Page:
    """Return a page of tasks, oldest first. Only `after` tells whether there may be more: a page
    can be short although it is not the last."""
    _require_page(who, most)
    tasks, more = summaries.list_summaries(store, which, after=after, most=most)
    return Page(tasks=tuple(tasks), after=more)


def list_lines(
    store: Store, who: Identity, which: Filter, *, after: int = 0, most: int = 100
) -> tuple[list[dict[str, Any]], int | None]:
    """Return the fields of the same tasks without building records."""
    _require_page(who, most)
    return summaries.list_lines(store, which, after=after, most=most)


def _require_page(who: Identity, most: int) -> None:
    need(who, READ)
    if not 1 <= most <= MOST:
        raise InputError(f"A page has from 1 to {MOST} tasks, not {most}.")


@reads
def get_task(store: Store, who: Identity, task: int) -> Task:
    return get_visible_task(store, who, task)


@reads
def explain(store: Store, who: Identity, task: int, *, now: float) -> Explanation:
    """Explain the state of a task that this identity may see."""
    get_visible_task(store, who, task)
    return explain_task(store, str(task), now=now)
