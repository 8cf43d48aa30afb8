"""Timeline, graph, report and plan as HTML, of a run made up here."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from cases import each_case
from html_pages import Tags
from page.page_records import EVIL, NOW
from weft.page.gantt_chart import GanttBar, GanttChart, GanttRow, draw_gantt, find_folds
from weft.page.plan_page import PlanEditor, render_checked, render_editor
from weft.page.report_page import render
from weft.page.run_views import RunView, render_graph, render_report, render_timeline
from weft.planning.forecast import Stint
from weft.runs.plan_check import PlanSource, check, setting
from weft.runs.report_records import (
    AttemptReport,
    LandingReport,
    RunReport,
    TaskReport,
    TaskWait,
)
from weft.runs.run_figures import RunFigures

VIEWS = {"timeline": render_timeline, "graph": render_graph, "report": render_report}


def make_task(number: int, needs: tuple[str, ...] = (), **changes: object) -> TaskReport:
    task = TaskReport(
        id=number,
        name=f"1.{number}",
        title=EVIL,
        state="done",
        reason=EVIL,
        needs=needs,
        barrier=False,
        person=False,
        start=0.0,
        end=10.0,
        seconds=10.0,
        micro_usd=1_000,
        commit="c" * 40,
        critical=True,
    )
    return replace(task, **changes)


def make_attempt(number: int, fate: str, reason: str, **changes: object) -> AttemptReport:
    attempt = AttemptReport(
        task_id=number,
        task=f"1.{number}",
        number=1,
        agent=EVIL,
        stage="implement",
        worker="w",
        slot=number,
        start=float(number),
        end=number + 10.0,
        outcome="success" if fate == "landed" else fate,
        failed=fate != "landed",
        fate=fate,
        reason=reason,
        tokens=1,
        micro_usd=1,
        commit=None,
    )
    return replace(attempt, **changes)


def make_report(**changes: object) -> RunReport:
    report = RunReport(
        run="r",
        plan="plan.md",
        title=EVIL,
        state="active",
        blocked="",
        base="b" * 40,
        tip="c" * 40,
        submitted=NOW - 100,
        seconds=100.0,
        figures=make_figures(),
        tasks=(make_task(1), make_task(2, ("1.1",), state="ready", end=None), make_task(3)),
        attempts=(
            make_attempt(1, "landed", ""),
            make_attempt(2, "crash", f"the same {EVIL}"),
            make_attempt(3, "crash", f"the same {EVIL}"),
        ),
        waits=(TaskWait(task_id=2, task="1.2", start=20.0, end=100.0, cause="person"),),
        checks=(),
        rejections=(),
        landings=(LandingReport(at=12.0, tasks=("1.1",), commits=("c" * 40,)),),
        capacity=(),
    )
    return replace(report, **changes)


def make_figures() -> RunFigures:
    values = {name: EVIL if name == "bound_by" else 1 for name in RunFigures.__struct_fields__}
    return RunFigures(**values)  # type: ignore[arg-type]  # fields of several types


def make_view(**changes: object) -> RunView:
    view = RunView(
        report=make_report(),
        runs=("r", "q"),
        schedule=(Stint(name="1.2", slot=0, start=0.0, end=30.0),),
        now=NOW,
    )
    return replace(view, **changes)


@each_case("name", VIEWS)
def test_hostile_text_stays_text(name: str) -> None:
    html = VIEWS[name](make_view())
    Tags(html)
    assert "<script" not in html
    assert "onerror=alert" not in html.replace("onerror=alert(2)&gt;", "")
    assert " style=" not in html, "the policy of the page forbids it"
    assert "There is no run yet" in VIEWS[name](RunView(report=None))


def test_the_timeline_links_to_logs_and_shows_waits_and_the_rest() -> None:
    html = render_timeline(make_view())
    assert 'href="#/task/1/log?attempt=1&amp;first=1"' in html
    assert "hatched person" in html
    assert "waits for a person" in html
    assert "busy pale" in html
    assert "About 30 s left" in html


def test_long_idle_times_are_folded_and_no_bar_is_in_one() -> None:
    spans = [(0.0, 10.0), (1000.0, 1010.0), (5.0, 12.0), (1011.0, 1012.0)]
    [(start, end)] = find_folds(spans, 1012.0)
    assert 12.0 <= start < end <= 1000.0
    bars = tuple(GanttBar(start=start, end=end) for start, end in spans)
    chart = GanttChart(
        label="x",
        seconds=1012.0,
        groups=((GanttRow(name="slot 1", bars=bars),),),
        folds=((start, end),),
    )
    widths = [float(part.split('"')[0]) for part in draw_gantt(chart).split('width="')[1:]]
    assert max(widths[3:]) > 300, "bars of 10 s have room once the idle time is folded"


def test_a_graph_that_is_too_large_to_draw_is_a_table() -> None:
    html = render_graph(make_view(report=make_report(tasks=tuple(map(make_task, range(2000))))))
    assert "2,000 tasks are too many to draw" in html.replace("2000", "2,000")
    assert "<svg" not in html


def test_the_report_begins_with_the_result_and_groups_failures() -> None:
    html = render_report(make_view())
    assert html.index("<h2>Result") < html.index("<h2>What ran when")
    assert "weft land r" in html
    assert "2 × crash" in html
    failures = html[html.index("<h2>Failures") : html.index("<h2>What ran when")]
    assert failures.count("the same") == 1
    assert "<h2>Result" in render(make_report()), "the file of weft report --html is the same"


def checked_plan(text: str) -> str:
    with setting(Path("/"), {}) as around:
        checked = check(PlanSource(name="plan.md", data=text.encode()), around)
        return render_checked(checked, 250_000)


def test_a_plan_with_a_problem_names_its_line() -> None:
    html = checked_plan("- [ ] Task 1: a\n  <!-- depends: task9 -->\n")
    assert "line 2" in html
    assert "error" in html
    assert "<svg" not in html


def test_a_good_plan_shows_time_cost_and_charts() -> None:
    html = checked_plan("- [ ] Task 1: a\n  <!-- files: a -->\n- [ ] Task 2: b\n")
    assert "$0.50 at the usual cost" in html
    assert "<svg" in html


def test_a_reader_cannot_run_a_plan() -> None:
    view = PlanEditor(text=EVIL, name="plan.md", checked=None, typical_cost=None, may_act=False)
    html = render_editor(view)
    assert "<button" not in html
    assert "<script" not in html
    assert "Run this plan" in render_editor(replace(view, may_act=True))
