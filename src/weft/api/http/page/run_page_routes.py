"""The views of a run's timeline, graph and report, and of a plan that is being written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Final

from fastapi import APIRouter, Request, Response
from pydantic import Field

from weft import bounds
from weft.api.fields import Body
from weft.api.http.page.html_answers import RunName, answer_html, choose_run, show, show_slowly
from weft.api.http.requests import act_slowly, identify, in_slow_thread, parts_of
from weft.model import TERMINAL
from weft.operations.dispatch import NewPlan, submit_text
from weft.operations.identity import ADMIN, READ, Identity, has
from weft.operations.steering import ControlResult
from weft.page.markup import Html
from weft.page.plan_page import PlanEditor, render_checked, render_editor
from weft.page.run_views import RunView, render_graph, render_report, render_timeline
from weft.plan.plan_prose import TEMPLATE
from weft.project.project import Project
from weft.runs import plan_check
from weft.runs.outlook import find_slots, predict_run
from weft.runs.plan_check import CheckedPlan, PlanSource
from weft.runs.progress import read_progress
from weft.runs.run_report import read as read_report
from weft.store import Store
from weft.store.limit_table import list_limits
from weft.store.summaries import get_typical_cost

router = APIRouter(prefix="/page", include_in_schema=False)

_PREDICTED: Final = 500  # unfinished tasks of a run whose rest is simulated
_FILE: Final = "plan.md"
_LONGEST: Final = 300_000  # bytes of a plan file that is shown


@router.get("/timeline")
async def timeline(request: Request, run: RunName = "") -> Response:
    return await _show_run(request, run, render_timeline)


@router.get("/graph")
async def graph(request: Request, run: RunName = "") -> Response:
    return await _show_run(request, run, render_graph)


@router.get("/report")
async def report(request: Request, run: RunName = "") -> Response:
    return await _show_run(request, run, render_report)


async def _show_run(request: Request, run: str, render: Callable[[RunView], Html]) -> Response:
    return await show(request, lambda store, who, now: render(_read_run(store, run, now)))


def _read_run(store: Store, name: str, now: float) -> RunView:
    choice = choose_run(store, name)
    if choice.run is None:
        return RunView(report=None)
    report = read_report(store, choice.run.id)
    progress = read_progress(store, choice.run.id)
    left = sum(task.state not in TERMINAL for task in progress.work)
    outlook = None
    if 0 < left <= _PREDICTED and not progress.stuck:
        capacities = {limit.resource: limit.effective for limit in list_limits(store, now=now)}
        slots = find_slots(choice.run.id, capacities)
        outlook = predict_run(store, progress, slots=slots, now=now)
    return RunView(
        report=report,
        runs=choice.runs,
        schedule=() if outlook is None else outlook.schedule,
        now=now,
    )


class PlanText(Body):
    plan: Annotated[str, Field(max_length=bounds.PLAN)] = ""
    review: Annotated[str, Field(max_length=10)] = ""


@router.get("/plan")
async def plan(request: Request) -> Response:
    parts = parts_of(request)

    def view(who: Identity, now: float) -> Html:
        text = _read_plan(parts.project.root / _FILE)
        return render_editor(
            PlanEditor(
                text=text,
                name=_FILE,
                checked=_check(parts.project, parts.store, text),
                typical_cost=get_typical_cost(parts.store),
                may_act=has(who, ADMIN),
            )
        )

    return await show_slowly(request, view)


def _read_plan(path: Path) -> str:
    """Return the plan of the repository, or a plan to fill in."""
    try:
        if path.is_symlink() or path.stat().st_size > _LONGEST:
            return TEMPLATE
        return path.read_text("utf-8", "replace")
    except OSError:
        return TEMPLATE


def _check(project: Project, store: Store, text: str) -> CheckedPlan:
    source = PlanSource(name=_FILE, data=text.encode(errors="replace"))
    return plan_check.check(source, plan_check.setting_of(project, store))


@router.post("/plan/check")
async def check(request: Request, body: PlanText) -> Response:
    """Compile a plan; nothing is kept."""
    parts = parts_of(request)
    await identify(request, READ)

    def work() -> Html:
        checked = _check(parts.project, parts.store, body.plan)
        return render_checked(checked, get_typical_cost(parts.store))

    return answer_html(request, await in_slow_thread(request, work))


@router.post("/act/run-plan")
async def run_plan(request: Request, body: PlanText) -> Response:
    parts, new = parts_of(request), NewPlan(plan=body.plan, review=bool(body.review))

    async def work(who: Identity) -> ControlResult:
        sent = await in_slow_thread(
            request, lambda: submit_text(parts.store, who, parts.project, new)
        )
        return ControlResult(text=f"Run {sent.submitted.run} has begun.")

    return await act_slowly(request, ADMIN, work)
