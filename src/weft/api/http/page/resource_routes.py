"""The views of the gate, limits, files and money."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Final

from fastapi import APIRouter, Query, Request, Response

from weft import git
from weft.api.http.page.html_answers import RunName, choose_run, show, show_slowly
from weft.api.http.requests import Parts, parts_of
from weft.errors import WeftError
from weft.gate.check_run import read_running_check
from weft.model import TERMINAL, Attempt, State, Task, TaskKind
from weft.operations.identity import ADMIN, Identity, has
from weft.page.files_view import FilesView, render_files
from weft.page.landing_view import LandingView, render_landing
from weft.page.limits_view import LimitsView, render_limits
from weft.page.markup import Html
from weft.page.spend_view import RunSpend, SpendView, render_spend
from weft.project.site import check_home
from weft.runs.host_list import read_hosts
from weft.runs.task_list import RunCost, page_run_costs
from weft.store import Store
from weft.store.check_orders import list_checks
from weft.store.gate import get_output, read_gate
from weft.store.limit_table import identity, list_limits
from weft.store.overview import overview
from weft.store.probe import queue
from weft.store.runs import get_run
from weft.store.summaries import list_held_files, list_work
from weft.store.tasks import list_run, list_run_attempts

router = APIRouter(prefix="/page", include_in_schema=False)

_OUTPUTS: Final = 20  # failed checks whose output is read
_PROBED: Final = 200  # ready tasks whose waits are read
_HOT: Final = 30
_TOUCHED: Final = 50  # tasks whose candidates are compared with their claims
_RUNS: Final = 20  # on a page of spending


@router.get("/landing")
async def landing(request: Request, run: RunName = "") -> Response:
    parts = parts_of(request)
    return await show_slowly(
        request, lambda who, now: render_landing(_read_landing(parts, who, run, now))
    )


def _read_landing(parts: Parts, who: Identity, name: str, now: float) -> LandingView:
    store = parts.store
    choice = choose_run(store, name)
    if choice.run is None:
        return LandingView(run="")
    run = choice.run.id
    gate = read_gate(store, run)
    failed = [verdict.number for verdict in gate.verdicts if not verdict.passed][-_OUTPUTS:]
    home = check_home(git.common_directory(parts.project.root), identity(store))
    return LandingView(
        run=run,
        runs=choice.runs,
        gate=gate,
        names={task.id: task.name for task in list_run(store, run)},
        checks=[
            (check, read_running_check(home / str(check.fence), store.redactor))
            for check in list_checks(store, run)
        ],
        outputs={number: get_output(store, run, number) for number in failed},
        may_act=has(who, ADMIN),
        now=now,
    )


@router.get("/limits")
async def limits(request: Request) -> Response:
    def view(store: Store, who: Identity, now: float) -> Html:
        first, _ = queue(store, now=now, most=_PROBED)
        held: dict[str, list[tuple[Task, bool]]] = {}
        for task, waits in first:
            for wait in waits:
                if wait.kind == "limit":
                    held.setdefault(wait.subject, []).append((task, len(waits) == 1))
        work = list_work(store)
        runs = {key.run: "" for key in work if key.run is not None}
        return render_limits(
            LimitsView(
                limits=list_limits(store, now=now),
                held=held,
                runs=dict.fromkeys(runs, "under way"),
                paused=frozenset(key.run or "" for key in work if key.state == State.PAUSED),
                drained=overview(store, most=1).drained,
                hosts=read_hosts(store, now=now),
                may_act=has(who, ADMIN),
                now=now,
            )
        )

    return await show(request, view)


@router.get("/files")
async def files(request: Request, run: RunName = "") -> Response:
    parts = parts_of(request)
    return await show_slowly(
        request, lambda who, now: render_files(_read_files(parts, who, run, now))
    )


def _read_files(parts: Parts, who: Identity, name: str, now: float) -> FilesView:
    store = parts.store
    choice = choose_run(store, name)
    first, _ = queue(store, now=now, most=_PROBED)
    tasks = [] if choice.run is None else list_run(store, choice.run.id)
    work = [task for task in tasks if task.request.kind is TaskKind.WORK]
    attempts = [] if choice.run is None else list_run_attempts(store, choice.run.id)
    return FilesView(
        run="" if choice.run is None else choice.run.id,
        runs=choice.runs,
        held=list_held_files(store),
        ready=first,
        hot=_find_hot(work),
        touched=list(_list_touched(parts.project.root, work, attempts)),
    )


def _find_hot(tasks: Sequence[Task]) -> list[tuple[str, int, int]]:
    """Return the patterns that several tasks ask for, the most wanted first."""
    asked = Counter(pattern for task in tasks for pattern in task.files)
    still = Counter(
        pattern for task in tasks if task.state not in TERMINAL for pattern in task.files
    )
    return [
        (pattern, number, still[pattern])
        for pattern, number in asked.most_common(_HOT)
        if number > 1
    ]


def _list_touched(
    root: Path, tasks: Sequence[Task], attempts: Sequence[Attempt]
) -> Iterator[tuple[Task, tuple[str, ...]]]:
    """Yield tasks with the files of their latest candidates."""
    latest: dict[int, Attempt] = {
        attempt.task: attempt for attempt in attempts if attempt.candidate and attempt.base
    }
    for task in [task for task in tasks if task.id in latest][-_TOUCHED:]:
        attempt = latest[task.id]
        touched = _changed(root, attempt.base or "", attempt.candidate or "")
        if touched is not None:
            yield task, touched


@lru_cache(maxsize=2000)
def _changed(root: Path, base: str, commit: str) -> tuple[str, ...] | None:
    """Return the files that a commit changes; None if git has it no more."""
    try:
        return tuple(
            path for change in git.compare_trees(root, base, commit) for path in change.paths
        )
    except WeftError:
        return None


@router.get("/spend")
async def spend(
    request: Request, after: Annotated[str | None, Query(max_length=200)] = None
) -> Response:
    def view(store: Store, who: Identity, now: float) -> Html:
        costs, more = page_run_costs(store, after=after, most=_RUNS)
        return render_spend(
            SpendView(
                runs=[_spend(store, cost) for cost in costs],
                after=more,
                may_act=has(who, ADMIN),
            )
        )

    return await show(request, view)


def _spend(store: Store, cost: RunCost) -> RunSpend:
    if cost.run is None:
        return RunSpend(cost=cost, state="", retries=0, forecast=None)
    state = get_run(store, cost.run).state
    attempts = list_run_attempts(store, cost.run)
    forecast = None if state == "ended" else _forecast(list_run(store, cost.run), attempts)
    return RunSpend(
        cost=cost,
        state=state,
        retries=_sum_retries(attempts),
        forecast=forecast,
    )


def _sum_retries(attempts: Sequence[Attempt]) -> int:
    """Sum the cost of the attempts that repeat a stage of their task."""
    seen: set[tuple[int, str | None]] = set()
    repeated = 0
    for attempt in attempts:
        key = (attempt.task, attempt.stage)
        repeated += attempt.micro_usd if key in seen else 0
        seen.add(key)
    return repeated


def _forecast(tasks: Sequence[Task], attempts: Sequence[Attempt]) -> int | None:
    """Expect each open task to cost as much as a done task did."""
    used: Counter[int] = Counter()
    for attempt in attempts:
        used[attempt.task] += attempt.micro_usd
    work = [task for task in tasks if task.request.kind is TaskKind.WORK]
    done = [used[task.id] for task in work if task.state is State.DONE and used[task.id]]
    if not done:
        return None
    usual = sum(done) // len(done)
    still = [task for task in work if task.state not in TERMINAL]
    return sum(used.values()) + sum(max(0, usual - used[task.id]) for task in still)
