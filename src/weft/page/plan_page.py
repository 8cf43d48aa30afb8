"""A plan as HTML: its figures, charts and tasks, in a file of its own or beside the editor."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from msgspec import Struct

from weft.formats import count, dollars, duration
from weft.graph import Successors
from weft.page.gantt_chart import GanttBar, GanttChart, GanttRow, draw_gantt
from weft.page.graph_chart import GraphChart, GraphNode, draw_graph
from weft.page.markup import (
    Html,
    article,
    colour_keys,
    described,
    dim,
    joined,
    number,
    render_page,
    state_tag,
    table,
    tag,
    tr,
)
from weft.page.report_page import draw
from weft.plan.plan_records import EdgeReason, PlanTask, Problem
from weft.runs import plan_words
from weft.runs.plan_check import CheckedPlan

_LARGEST_GRAPH: Final = 1500
_LARGEST_SCHEDULE: Final = 3000
_LONGEST: Final = 300_000  # characters of a plan in the editor


class PlanEditor(Struct, frozen=True, kw_only=True):
    text: str  # a plan to begin with
    name: str  # of its file
    checked: CheckedPlan | None  # None: nothing is compiled yet
    typical_cost: int | None  # micro-dollars of an attempt so far; None: none is known
    may_act: bool


def render_editor(view: PlanEditor) -> Html:
    compiled = None if view.checked is None else render_checked(view.checked, view.typical_cost)
    area = tag(
        "textarea",
        view.text,
        name="plan",
        id="plan-text",
        rows=34,
        maxlength=_LONGEST,
        spellcheck="false",
        data_draft="plan",
    )
    form = tag(
        "form",
        tag("label", "Plan", for_="plan-text"),
        area,
        _run_button(view) if view.may_act else None,
        data_act="page/act/run-plan",
        data_post="plan/check",
        data_into="compiled",
        data_go="#/now",
        id="plan-form",
    )
    shown = tag("section", compiled, id="compiled", aria_label="The compiled plan")
    return article("Plan", tag("div", form, shown, class_="editor"))


def _run_button(view: PlanEditor) -> Html:
    review = tag("input", type="checkbox", name="review", value="yes", id="plan-review")
    command = tag("code", f"weft run {view.name}", class_="cli")
    return joined(
        tag("label", review, "I accept each candidate before it lands (--review)"),
        tag("button", tag("span", "Run this plan"), command, type="submit"),
    )


def render_checked(checked: CheckedPlan, typical_cost: int | None) -> Html:
    """Show a compiled plan: problems with their lines first."""
    if not checked.compiled.plan.tasks and not checked.problems:
        return dim("The plan has no task yet: write - [ ] before each.")
    return joined(
        [_problem(problem) for problem in checked.problems],
        None if checked.failed else tag("p", _describe_cost(checked, typical_cost), class_="lead"),
        [dim(note) for note in plan_words.list_notes(checked)],
        None if checked.failed else _compiled(checked),
    )


def _problem(problem: Problem) -> Html:
    return tag(
        "p",
        state_tag(f"line {problem.line}", "bad" if problem.severity == "error" else "back"),
        f" {problem.severity}: {problem.message} ",
        tag("span", problem.suggestion, class_="dim"),
        class_="problem",
    )


def _describe_cost(checked: CheckedPlan, typical_cost: int | None) -> str:
    runs = len(checked.forecast.schedule)
    about = f"About {duration(checked.forecast.seconds)}"
    if typical_cost is None:
        return f"{about}; no attempt has reported a cost yet."
    return f"{about} and {dollars(runs * typical_cost)} at the usual cost of an attempt."


def render(checked: CheckedPlan) -> str:
    """Return a file of its own, for `weft plan show --html`."""
    title = joined(checked.compiled.plan.title or checked.name)
    problems = [" ".join(plan_words.problem_lines(problem)) for problem in checked.problems]
    body = [tag("h1", title), _compiled(checked), *_listing("Warnings", problems)]
    return render_page(title, body)


def _compiled(checked: CheckedPlan) -> Html:
    """Show a plan that was compiled: figures, advice, charts and tasks."""
    return joined(
        dim(plan_words.summary(checked)),
        described(plan_words.figures(checked)),
        _listing("What would shorten it most", list(plan_words.advice(checked))),
        _graph(checked),
        _schedule(checked),
        _tasks(checked),
    )


def _listing(heading: str, lines: Sequence[str]) -> Iterator[Html]:
    if lines:
        yield tag("h2", heading)
        yield tag("ul", [tag("li", line) for line in lines])


def _graph(checked: CheckedPlan) -> Iterator[Html]:
    yield tag("h2", "What waits for what")
    tasks = len(checked.compiled.plan.tasks)
    if tasks > _LARGEST_GRAPH:
        yield dim(f"{tasks:,} tasks are too many to draw; the table has them all.")
        return
    yield colour_keys(
        (
            ("hot", "on the critical path"),
            ("done", "done or skipped"),
            ("turns", "may change the same file: never at the same time"),
        )
    )
    yield draw(draw_graph(chart_graph(checked)))


def _schedule(checked: CheckedPlan) -> Iterator[Html]:
    schedule = checked.forecast.schedule
    if not schedule:
        return
    yield tag("h2", "What would run when")
    if len(schedule) > _LARGEST_SCHEDULE:
        yield dim(f"{len(schedule):,} tasks are too many to draw.")
        return
    yield draw(draw_gantt(chart_slots(checked)))


def _tasks(checked: CheckedPlan) -> Iterator[Html]:
    reasons = plan_words.list_reasons(checked.compiled)
    rows = []
    for heading, tasks in plan_words.list_phases(checked.compiled):
        rows.append(tag("tr", tag("th", heading, scope="colgroup", colspan=4)))
        for task in tasks:
            seconds = checked.seconds.get(task.id, 0.0)
            why = [tag("div", reason, class_="dim") for reason in reasons.get(task.id, [])[:8]]
            length = number(duration(seconds) if seconds else "")
            rows.append(tr(tag("span", task.id, class_="id"), _words(task), length, why))
    yield tag("h2", "Tasks, and why they wait")
    yield table((), rows, caption="Tasks by phase")


def _words(task: PlanTask) -> str:
    person = " (waits for a person)" if task.manual else ""
    status = "" if task.status == "waiting" else f" – {task.status}"
    return f"{task.title}{person}{status}"


def chart_graph(checked: CheckedPlan) -> GraphChart:
    compiled, critical = checked.compiled, checked.critical_path
    tasks = compiled.plan.tasks
    place = {task.id: number for number, task in enumerate(tasks)}
    return GraphChart(
        label="The tasks, and the tasks each of them waits for",
        nodes=tuple(
            _node(task, task.id in critical, checked.seconds.get(task.id, 0.0)) for task in tasks
        ),
        successors=compiled.successors,
        critical=_critical_edges(compiled.successors, [place[task] for task in critical]),
        overlaps=tuple(
            (
                place[edge.before],
                place[edge.after],
                f"{edge.before} and {edge.after} may both change {', '.join(edge.files)}",
            )
            for edge in compiled.edges
            if edge.why is EdgeReason.OVERLAP
        ),
    )


def _node(task: PlanTask, critical: bool, seconds: float) -> GraphNode:
    state = duration(seconds) if seconds else str(task.status)
    note = "waits for a person" if task.manual else state
    return GraphNode(
        name=task.id,
        text=task.title,
        note=note,
        kind=f"{task.status} person" if task.manual else str(task.status),
        critical=critical,
        hover=(f"{task.id} {task.title} ({note})",),
    )


def _critical_edges(successors: Successors, path: Sequence[int]) -> frozenset[tuple[int, int]]:
    """Return the edges of a path; some of them lead through a dot."""
    edges: set[tuple[int, int]] = set()
    for before, after in pairwise(path):
        if after in successors[before]:
            edges.add((before, after))
            continue
        for dot in successors[before]:
            if after in successors[dot]:
                edges |= {(before, dot), (dot, after)}
    return frozenset(edges)


def chart_slots(checked: CheckedPlan) -> GanttChart:
    """Return the predicted schedule with a row for each slot."""
    slots: dict[int, list[GanttBar]] = {}
    for stint, bar in zip(checked.forecast.schedule, _bars(checked), strict=True):
        slots.setdefault(stint.slot, []).append(bar)
    rows = (
        GanttRow(name=f"slot {slot + 1}", bars=tuple(bars), note=count(len(bars), "task"))
        for slot, bars in sorted(slots.items())
    )
    return _chart(checked, tuple(rows))


def chart_tasks(checked: CheckedPlan) -> GanttChart:
    """Return the predicted schedule with a row for each task."""
    rows = (
        GanttRow(name=bar.labels[0], bars=(bar,), note=duration(bar.end - bar.start))
        for bar in _bars(checked)
    )
    return _chart(checked, tuple(rows))


def _chart(checked: CheckedPlan, rows: tuple[GanttRow, ...]) -> GanttChart:
    label = "The predicted times of the tasks, by slot"
    return GanttChart(label=label, seconds=checked.forecast.seconds, groups=(rows,))


def _bars(checked: CheckedPlan) -> list[GanttBar]:
    """Return a bar for each stint of the schedule."""
    texts = {task.id: task.title for task in checked.compiled.plan.tasks}
    critical = set(checked.critical_path)
    bars = []
    for stint in checked.forecast.schedule:
        label = f"{stint.name} {texts[stint.name]}"
        bars.append(
            GanttBar(
                start=stint.start,
                end=stint.end,
                labels=(label, stint.name),
                kind="hot" if stint.name in critical else "",
                hover=(f"{label} ({duration(stint.start)} to {duration(stint.end)})",),
                task=stint.name,
            )
        )
    return bars
