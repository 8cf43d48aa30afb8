"""A plan as one HTML page that needs nothing else: no script, no network, no other file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from weft.cli.html_page import document
from weft.cli.plan import plan_svg, plan_text, text_tree
from weft.cli.plan.plan_text import duration
from weft.cli.svg_parts import escaped
from weft.plan.plan_records import PlanTask
from weft.runs.plan_check import CheckedPlan

_LARGEST_GRAPH: Final = 1500
_LARGEST_SCHEDULE: Final = 3000

_STYLE: Final = """
:root{color-scheme:light dark;--ink:#1c2430;--dim:#5c6878;--paper:#fff;--box:#f2f5f9;--edge:#b9c4d2;
--hot:#c2410c;--hotbox:#fff1e6;--done:#e5f4e8;--halt:#fde8e8;--turn:#7c3aed}
@media(prefers-color-scheme:dark){:root{--ink:#e6ebf2;--dim:#9aa7b8;--paper:#12161c;--box:#1e2530;
--edge:#465364;--hot:#fb923c;--hotbox:#3a2413;--done:#17301d;--halt:#3b1a1a;--turn:#a78bfa}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);margin:2rem auto;
padding:0 1.5rem;max-width:1280px}
h1{font-size:1.5rem;margin:0 0 .25rem}h2{font-size:1.1rem;margin:2rem 0 .5rem}
.dim{color:var(--dim);fill:var(--dim)}.scroll{overflow:auto;max-height:85vh;border:1px solid
var(--edge);border-radius:8px}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.15rem 1rem;margin:1rem 0}
dt{color:var(--dim)}dd{margin:0}table{border-collapse:collapse;width:100%}
td,th{text-align:left;vertical-align:top;padding:.3rem .7rem .3rem 0}
td,th{border-top:1px solid var(--edge)}
th{color:var(--dim);font-weight:500}td.n{white-space:nowrap}ul{margin:.3rem 0;padding-left:1.2rem}
svg{display:block;font:11.5px system-ui,sans-serif}svg text{fill:var(--ink)}
svg text.dim,svg .dim{fill:var(--dim)}.id{font-weight:600}
.task rect{fill:var(--box);stroke:var(--edge)}.task.done rect,.task.skipped rect{fill:var(--done)}
.task.blocked rect{fill:var(--halt)}.task.manual rect{stroke-dasharray:4 3}
.task.hot rect{fill:var(--hotbox);stroke:var(--hot);stroke-width:1.6}
.line{fill:none;stroke:var(--edge);stroke-width:1.3}.line.hot{stroke:var(--hot);stroke-width:2.2}
.line.turns{stroke:var(--turn);stroke-dasharray:5 4}.dot{fill:var(--edge)}
.grid{stroke:var(--edge);stroke-width:.6;fill:none}
.key{display:inline-block;width:.9em;height:.9em;border-radius:3px;border:1px solid var(--edge);
vertical-align:-.1em;margin:0 .3em 0 1em}.key.hot{background:var(--hotbox);border-color:var(--hot)}
.key.done{background:var(--done)}.key.turns{border:0;border-top:2px dashed var(--turn);height:.3em}
"""


def render(checked: CheckedPlan, figures: list[tuple[str, str]], advice: list[str]) -> str:
    """The whole page; `figures` and `advice` are what the terminal says in words."""
    title = escaped(checked.compiled.plan.title or checked.name)
    body = [
        f"<h1>{title}</h1>",
        f'<p class="dim">{escaped(plan_text.summary(checked))}</p>',
        "<dl>",
        *(f"<dt>{escaped(name)}</dt><dd>{escaped(value)}</dd>" for name, value in figures),
        "</dl>",
        *_listing("What would shorten it most", advice),
        *_graph(checked),
        *_schedule(checked),
        *_tasks(checked),
        *_problems(checked),
    ]
    return document(title, _STYLE, body)


def _graph(checked: CheckedPlan) -> Iterator[str]:
    yield "<h2>What waits for what</h2>"
    number = len(checked.compiled.plan.tasks)
    if number > _LARGEST_GRAPH:
        yield f'<p class="dim">{number:,} tasks are too many to draw; the table has them all.</p>'
        return
    yield (
        '<p class="dim"><span class="key hot"></span>on the critical path'
        '<span class="key done"></span>done or skipped'
        '<span class="key turns"></span>may change the same file: never at the same time</p>'
    )
    drawing = plan_svg.graph(checked.compiled, checked.critical_path, checked.seconds)
    yield f'<div class="scroll">{drawing}</div>'


def _schedule(checked: CheckedPlan) -> Iterator[str]:
    schedule = checked.forecast.schedule
    if not schedule:
        return
    yield "<h2>What would run when</h2>"
    if len(schedule) > _LARGEST_SCHEDULE:
        yield f'<p class="dim">{len(schedule):,} tasks are too many to draw.</p>'
        return
    names = text_tree.names(checked.compiled.plan)
    drawing = plan_svg.gantt(checked.forecast, names, set(checked.critical_path))
    yield f'<div class="scroll">{drawing}</div>'


def _tasks(checked: CheckedPlan) -> Iterator[str]:
    plan = checked.compiled.plan
    reasons = text_tree.why(checked.compiled)
    waits = text_tree.phase_waits(checked.compiled)
    members: dict[str, list[PlanTask]] = {phase.label: [] for phase in plan.phases}
    for task in plan.tasks:
        members[task.phase].append(task)
    yield "<h2>Tasks, and why they wait</h2><table>"
    for phase in plan.phases:
        heading = escaped(text_tree.heading(phase, waits.get(phase.label, {})))
        yield f'<tr><th colspan="4">{heading}</th></tr>'
        for task in members[phase.label]:
            seconds = checked.seconds.get(task.id, 0.0)
            length = duration(seconds) if seconds else ""
            why = "<br>".join(escaped(reason) for reason in reasons.get(task.id, [])[:8])
            yield (
                f'<tr><td class="n id">{escaped(task.id)}</td><td>{escaped(_words(task))}</td>'
                f'<td class="n">{length}</td><td class="dim">{why}</td></tr>'
            )
    yield "</table>"


def _words(task: PlanTask) -> str:
    person = " (waits for a person)" if task.manual else ""
    status = "" if task.status == "waiting" else f" – {task.status}"
    return f"{task.text}{person}{status}"


def _problems(checked: CheckedPlan) -> Iterator[str]:
    said = [" ".join(plan_text.problem_lines(problem)) for problem in checked.problems]
    yield from _listing("Warnings", said)


def _listing(heading: str, lines: list[str]) -> Iterator[str]:
    if lines:
        items = "".join(f"<li>{escaped(line)}</li>" for line in lines)
        yield f"<h2>{escaped(heading)}</h2><ul>{items}</ul>"
