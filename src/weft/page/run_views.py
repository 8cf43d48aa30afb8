"""The views of a whole run: its timeline, its graph and its report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from weft.formats import clock, count, duration
from weft.page import report_charts
from weft.page.act_forms import pick_run
from weft.page.gantt_chart import draw_gantt
from weft.page.graph_chart import draw_graph
from weft.page.markup import (
    Html,
    article,
    colour_keys,
    dim,
    joined,
    link,
    state_tag,
    table,
    tag,
    tr,
)
from weft.page.report_page import draw, render_attempts, render_body
from weft.planning.forecast import Stint
from weft.runs.report_records import RunReport, TaskReport
from weft.words import state_word

_LARGEST: Final = 1500  # bars of a drawing


class RunView(Struct, frozen=True, kw_only=True):
    report: RunReport | None  # None: there is no run yet
    runs: Sequence[str] = ()
    schedule: Sequence[Stint] = ()  # predicted, in seconds from now
    now: float = 0.0


def render_timeline(view: RunView) -> Html:
    report = view.report
    if report is None:
        return _no_run("Timeline")
    bars = len(report.attempts) + len(report.checks) + len(report.waits) + len(view.schedule)
    if not bars:
        drawing = dim("Nothing has run yet.")
    elif bars > _LARGEST:
        drawing = dim("Too many bars to draw; the table has them all.")
    else:
        drawing = draw(draw_gantt(report_charts.chart_live(report, view.schedule)))
    return article(
        "Timeline",
        pick_run("timeline", view.runs, report.run),
        dim(_describe_end(view)),
        _KEYS,
        drawing,
        _wait_table(report),
        render_attempts(report),
    )


_KEYS: Final = colour_keys(
    (
        ("landed", "landed"),
        ("busy", "running, or predicted if pale"),
        ("back", "sent back"),
        ("bad", "failed"),
        ("person", "hatched: waits for a person"),
        ("off", "hatched: waits for room"),
    )
)


def _describe_end(view: RunView) -> str:
    assert view.report is not None
    if view.report.state == "ended":
        return f"The run has ended after {duration(view.report.seconds)}."
    left = max((stint.end for stint in view.schedule), default=0.0)
    if not left:
        return "No end is predicted: the run waits for a decision."
    return (
        f"About {duration(left)} left without waiting for people; the end is expected at "
        f"{clock(view.now + left)}."
    )


def _wait_table(report: RunReport) -> Html | None:
    if not report.waits:
        return None
    rows = [
        tr(
            link(f"task/{wait.task_id}", wait.task),
            report_charts.WAITS[wait.cause],
            duration(wait.start),
            duration(wait.end - wait.start),
        )
        for wait in sorted(report.waits, key=lambda wait: wait.start - wait.end)[:200]
    ]
    waits = table(("Task", "Cause", "From", "For"), rows, caption="Waits, the longest first")
    return joined(tag("h2", "Waits"), waits)


def render_graph(view: RunView) -> Html:
    report = view.report
    if report is None:
        return _no_run("Graph")
    tasks = [task for task in report.tasks if not task.barrier]
    if len(report.tasks) > _LARGEST:
        drawing = dim(f"{count(len(tasks), 'task')} are too many to draw; the table has them.")
    else:
        drawing = draw(draw_graph(report_charts.chart_graph(report, linked=True)))
    return article(
        "Graph",
        pick_run("graph", view.runs, report.run),
        dim(_describe_end(view)),
        colour_keys([("hot", "the chain that decides when the run ends")]),
        drawing,
        tag("h2", "As a table"),
        _graph_table(tasks[:1000], view),
    )


def _graph_table(tasks: Sequence[TaskReport], view: RunView) -> Html:
    assert view.report is not None
    by_name = {task.name: task for task in view.report.tasks}
    ends = {stint.name: view.now + stint.end for stint in view.schedule}
    rows = [
        tr(
            link(f"task/{task.id}", task.name, class_="id"),
            task.title,
            state_tag(state_word(task.state), task.state),
            ", ".join(_describe_need(by_name[need], by_name) for need in task.needs[:8]),
            clock(ends[task.name]) if task.name in ends else "",
            "yes" if task.critical else "",
            data_row=True,
        )
        for task in tasks
    ]
    heads = ("Task", "", "State", "Waits for", "Expected", "Critical")
    return table(heads, rows, caption="Tasks, and the tasks each of them waits for")


def _describe_need(need: TaskReport, by_name: Mapping[str, TaskReport]) -> str:
    """Name the task that is in the way; a barrier stands for the tasks before it."""
    if not need.barrier:
        return f"{need.name} ({state_word(need.state)})"
    left = [name for name in need.needs if by_name[name].end is None]
    return f"the end of a phase ({count(len(left), 'task')} left)"


def render_report(view: RunView) -> Html:
    report = view.report
    if report is None:
        return _no_run("Report")
    return article(
        "Report",
        pick_run("report", view.runs, report.run),
        render_body(report),
        dim(tag("code", f"weft report {report.run} --html report.html")),
        heading=f"Report of {report.title or report.run}",
    )


def _no_run(title: str) -> Html:
    start = tag("code", "weft run plan.md")
    return article(title, dim("There is no run yet; ", start, " starts one."))
