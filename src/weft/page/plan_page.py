"""A plan as one HTML page without a script."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from weft.formats import duration
from weft.page import plan_charts, plan_tree, plan_words
from weft.page.gantt_chart import draw_gantt
from weft.page.graph_chart import draw_graph
from weft.page.markup import escaped, render_page
from weft.plan.plan_records import PlanTask
from weft.runs.plan_check import CheckedPlan

_LARGEST_GRAPH: Final = 1500
_LARGEST_SCHEDULE: Final = 3000


def render(checked: CheckedPlan) -> str:
    """Return a file of its own, for `weft plan show --html`."""
    title = escaped(checked.compiled.plan.title or checked.name)
    body = [f"<h1>{title}</h1>", *render_compiled(checked), *_problems(checked)]
    return render_page(title, body)


def render_compiled(checked: CheckedPlan) -> Iterator[str]:
    """Yield the parts of a plan that was compiled: figures, advice, charts and tasks."""
    yield f'<p class="dim">{escaped(plan_words.summary(checked))}</p>'
    yield "<dl>"
    for name, value in plan_words.figures(checked):
        yield f"<dt>{escaped(name)}</dt><dd>{escaped(value)}</dd>"
    yield "</dl>"
    yield from _listing("What would shorten it most", list(plan_words.advice(checked)))
    yield from _graph(checked)
    yield from _schedule(checked)
    yield from _tasks(checked)


def _graph(checked: CheckedPlan) -> Iterator[str]:
    yield "<h2>What waits for what</h2>"
    number = len(checked.compiled.plan.tasks)
    if number > _LARGEST_GRAPH:
        yield f'<p class="dim">{number:,} tasks are too many to draw; the table has them all.</p>'
        return
    yield (
        '<div class="keys"><span><i class="hot"></i>on the critical path</span>'
        '<span><i class="done"></i>done or skipped</span><span>'
        '<i class="turns"></i>may change the same file: never at the same time</span>'
        "</div>"
    )
    yield f'<div class="card scroll">{draw_graph(plan_charts.chart_graph(checked))}</div>'


def _schedule(checked: CheckedPlan) -> Iterator[str]:
    schedule = checked.forecast.schedule
    if not schedule:
        return
    yield "<h2>What would run when</h2>"
    if len(schedule) > _LARGEST_SCHEDULE:
        yield f'<p class="dim">{len(schedule):,} tasks are too many to draw.</p>'
        return
    yield f'<div class="card scroll">{draw_gantt(plan_charts.chart_slots(checked))}</div>'


def _tasks(checked: CheckedPlan) -> Iterator[str]:
    reasons = plan_tree.list_reasons(checked.compiled)
    yield '<h2>Tasks, and why they wait</h2><div class="card scroll"><table>'
    yield '<caption class="unseen">Tasks by phase</caption>'
    for heading, tasks in plan_tree.list_phases(checked.compiled):
        yield f'<tr><th scope="colgroup" colspan="4">{escaped(heading)}</th></tr>'
        for task in tasks:
            seconds = checked.seconds.get(task.id, 0.0)
            length = duration(seconds) if seconds else ""
            why = "<br>".join(escaped(reason) for reason in reasons.get(task.id, [])[:8])
            yield (
                f'<tr><td class="n id">{escaped(task.id)}</td><td>{escaped(_words(task))}</td>'
                f'<td class="n">{length}</td><td class="dim">{why}</td></tr>'
            )
    yield "</table></div>"


def _words(task: PlanTask) -> str:
    person = " (waits for a person)" if task.manual else ""
    status = "" if task.status == "waiting" else f" – {task.status}"
    return f"{task.title}{person}{status}"


def _problems(checked: CheckedPlan) -> Iterator[str]:
    lines = [" ".join(plan_words.problem_lines(problem)) for problem in checked.problems]
    yield from _listing("Warnings", lines)


def _listing(heading: str, lines: list[str]) -> Iterator[str]:
    if lines:
        items = "".join(f"<li>{escaped(line)}</li>" for line in lines)
        yield f"<h2>{escaped(heading)}</h2><ul>{items}</ul>"
