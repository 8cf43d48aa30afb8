"""The report of a run as one HTML page; its script only highlights.

Texts of plans, agents and checks are escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import zip_longest
from typing import Final

from weft.formats import dollars, listed, moment, whole_line
from weft.page import report_charts, report_tables
from weft.page.gantt_chart import draw_gantt
from weft.page.graph_chart import draw_graph
from weft.page.markup import HIGHLIGHT, escaped, render_page
from weft.page.report_words import KEYS, describe_fate, find_kind, shorten_limit
from weft.page.step_chart import draw_steps
from weft.runs.report.limit_use import LimitUse
from weft.runs.report.report_records import RunReport
from weft.runs.run_figures import describe_times
from weft.words import state_word

_LARGEST: Final = 1500  # nodes or bars in a drawing


def render(report: RunReport) -> str:
    """Return a file of its own, for `weft report --html`."""
    title = escaped(report.title or report.run)
    body = [f"<h1>{title}</h1>", *render_body(report)]
    return render_page(f"{title}: run {escaped(report.run)}", body, HIGHLIGHT)


def render_body(report: RunReport) -> Iterator[str]:
    """Yield the parts of a report: the result first, then the way to it."""
    yield from _head(report)
    yield from _cards(report)
    yield from _result(report)
    yield from _failures(report)
    if times := describe_times(report.figures):
        yield f"<p>This run {escaped(times)}.</p>"
    yield from _gantt(report)
    yield from _graph(report)
    yield from _charts(report)
    yield from report_tables.gate(report)
    yield from report_tables.agents(report)
    yield from report_tables.attempts(report)


def _result(report: RunReport) -> Iterator[str]:
    yield "<h2>Result</h2>"
    if not report.landings:
        yield '<p class="dim">Nothing has landed.</p>'
        return
    titles = {task.name: task.title for task in report.tasks}
    yield '<div class="card scroll"><table><caption class="unseen">Landed commits</caption><thead>'
    yield '<tr><th scope="col">commit</th><th scope="col">task</th><th scope="col">title</th>'
    yield '<th scope="col">changes</th></tr></thead><tbody>'
    for landing in report.landings:
        for commit, task in zip_longest(landing.commits, landing.tasks, fillvalue=""):
            diff = f"<code>weft diff {escaped(task)}</code>" if task else ""
            yield (
                f"<tr><td><code>{escaped(commit[:12])}</code></td>"
                f'<td class="id">{escaped(task)}</td><td>{escaped(titles.get(task, ""))}</td>'
                f"<td>{diff}</td></tr>"
            )
    yield "</tbody></table></div>"
    run = escaped(report.run)
    yield (
        f"<p>All of it is on the branch <code>weft/{run}</code>: <code>weft land {run}</code> "
        f"puts it onto your branch, <code>weft publish {run}</code> makes a pull request, "
        f"<code>git diff {escaped(report.base[:12])} weft/{run}</code> shows it whole.</p>"
    )


def _failures(report: RunReport) -> Iterator[str]:
    """List failures; those with the same reason once."""
    groups: dict[tuple[str, str], list[str]] = {}
    for attempt in report.attempts:
        if attempt.failed or attempt.fate == "sent back":
            key = (attempt.fate, whole_line(attempt.reason))
            groups.setdefault(key, []).append(f"{attempt.task} #{attempt.number}")
    if not groups:
        return
    yield "<h2>Failures</h2><ul>"
    for (fate, reason), names in sorted(groups.items(), key=lambda group: -len(group[1])):
        yield (
            f'<li><span class="tag {find_kind(fate)}">{len(names)} × '
            f"{escaped(describe_fate(fate))}</span> {escaped(reason)} "
            f'<span class="dim">{escaped(listed(names, most=12))}</span></li>'
        )
    yield "</ul>"


def _head(report: RunReport) -> Iterator[str]:
    tip = f" → <code>{escaped(report.tip[:12])}</code>" if report.tip else ""
    yield (
        f'<p class="dim">Run <b>{escaped(report.run)}</b>, {escaped(report.state)} · '
        f"submitted {moment(report.submitted)} · <code>{escaped(report.base[:12])}</code>{tip}</p>"
    )
    if report.blocked:
        yield f'<p><span class="tag blocked">gate</span> {escaped(report.blocked)}</p>'
    predicted = [task.name for task in report.tasks if task.predicted]
    if predicted:
        yield f'<p class="dim">Files were predicted for {escaped(listed(predicted))}.</p>'
    for task in report.tasks:
        if task.state in ("blocked", "failed", "paused"):
            word = state_word(task.state)
            tag = f'<span class="tag {task.state}">{escaped(task.name)} {word}</span>'
            yield f"<p>{tag} {escaped(whole_line(task.reason))}</p>"


def _cards(report: RunReport) -> Iterator[str]:
    figures = report.figures
    cards = (
        (f"{figures.landed} of {figures.tasks}", "tasks landed"),
        (f"{figures.attempts}", f"attempts, {figures.failed} failed"),
        (f"{figures.checks}", f"checks, {figures.flaky} flaky, {figures.sent_back} sent back"),
        (dollars(figures.micro_usd), f"{figures.tokens:,} tokens"),
    )
    yield '<div class="cards">'
    yield from (
        f'<div class="card"><b>{value}</b><span>{text}</span></div>' for value, text in cards
    )
    yield "</div>"


def _gantt(report: RunReport) -> Iterator[str]:
    yield "<h2>What ran when</h2>"
    if not report.attempts:
        yield '<p class="dim">Nothing has run yet.</p>'
    elif len(report.attempts) + len(report.checks) > _LARGEST:
        yield '<p class="dim">Too many attempts to draw; the table below has them all.</p>'
    else:
        used = {find_kind(attempt.fate) for attempt in report.attempts}
        keys = "".join(
            f'<span><i class="{kind}"></i>{text}</span>' for kind, text in KEYS if kind in used
        )
        yield f'<div class="keys">{keys}<span>○ landed, ◇ sent back</span></div>'
        yield f'<div class="card scroll">{draw_gantt(report_charts.chart_times(report))}</div>'


def _graph(report: RunReport) -> Iterator[str]:
    yield "<h2>What waited for what</h2>"
    if len(report.tasks) > _LARGEST:
        yield f'<p class="dim">{len(report.tasks):,} tasks are too many to draw.</p>'
        return
    chain = [task for task in report.tasks if task.critical and not task.barrier]
    chain.sort(key=lambda task: report.seconds if task.end is None else task.end)
    names = escaped(" → ".join(task.name for task in chain))
    yield (
        '<div class="keys"><span><i class="hot"></i>the chain that decided when the run ended: '
        f"{names}</span></div>"
    )
    yield f'<div class="card scroll">{draw_graph(report_charts.chart_graph(report))}</div>'


def _charts(report: RunReport) -> Iterator[str]:
    if not report.attempts:
        return
    yield "<h2>Capacity and cost over time</h2>"
    yield (
        '<div class="keys"><span><i class="busy"></i>in use by this run</span>'
        '<span><i class="off"></i>by others</span><span>- - the limit</span></div>'
        '<div class="charts">'
    )
    for group in _alike(report.capacity):
        use = group[0]
        names = escaped(", ".join(shorten_limit(each.resource, report.run) for each in group))
        limit = ", no limit" if use.limit is None else f" of {use.limit}"
        yield (
            f'<div class="card"><b>{names}</b> '
            f'<span class="dim">at most {use.peak}{limit}, {use.average:.1f} on average</span>'
            f"{draw_steps(report_charts.chart_limit(use, report.seconds))}</div>"
        )
    if report.figures.micro_usd:
        yield (
            f'<div class="card"><b>spent</b> <span class="dim">'
            f"{dollars(report.figures.micro_usd)} in all</span>"
            f"{draw_steps(report_charts.chart_costs(report))}</div>"
        )
    yield "</div>"


def _alike(uses: Iterable[LimitUse]) -> list[list[LimitUse]]:
    """Group the limits whose charts would be the same."""
    groups: dict[object, list[LimitUse]] = {}
    for use in uses:
        groups.setdefault((use.steps, use.limit, use.penalties), []).append(use)
    return list(groups.values())
