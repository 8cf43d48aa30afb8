"""The report of a run as one HTML page that needs nothing else and says everything without a
script. All that plans, agents and checks said is escaped."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Final

from weft.cli.html_page import document
from weft.cli.report import charts, report_gantt, report_graph, report_text, tables
from weft.cli.report.style import SCRIPT, STYLE
from weft.cli.svg_parts import escaped
from weft.runs.report.limit_use import LimitUse
from weft.runs.report.report_records import RunReport, TaskReport

_LARGEST: Final = 1500  # nodes or bars in a drawing


def render(report: RunReport) -> str:
    title = escaped(report.title or report.run)
    body = [
        f"<h1>{title}</h1>",
        *_head(report),
        *_cards(report),
        *_comparison(report),
        *_gantt(report),
        *_graph(report),
        *_charts(report),
        *tables.gate(report),
        *tables.agents(report),
        *tables.attempts(report),
    ]
    return document(f"{title}: run {escaped(report.run)}", STYLE, body, SCRIPT)


def _head(report: RunReport) -> Iterator[str]:
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(report.submitted))
    tip = f" → <code>{escaped(report.tip[:12])}</code>" if report.tip else ""
    yield (
        f'<p class="dim">Run <b>{escaped(report.run)}</b>, {escaped(report.state)} · '
        f"submitted {when} · <code>{escaped(report.base[:12])}</code>{tip}</p>"
    )
    waits = [one for one in report.tasks if one.state in ("blocked", "failed", "paused")]
    if report.blocked:
        yield f'<p><span class="tag blocked">gate</span> {escaped(report.blocked)}</p>'
    for one in waits:
        reason = escaped(report_text.first_line(one.reason))
        tag = f'<span class="tag {one.state}">{escaped(one.name)} {one.state}</span>'
        yield f"<p>{tag} {reason}</p>"


def _cards(report: RunReport) -> Iterator[str]:
    told = report.figures
    found = (
        (f"{told.landed} of {told.tasks}", "tasks landed"),
        (report_text.length(told.makespan), "from first start to the end"),
        (_times(told.sequential, told.makespan), "as fast as one by one"),
        (_times(told.makespan, told.bound), "the least time possible"),
        (f"{told.attempts}", f"attempts, {told.failed} failed"),
        (f"{told.checks}", f"checks, {told.flaky} flaky, {told.sent_back} sent back"),
        (report_text.dollars(told.micro_usd), f"{told.tokens:,} tokens"),
    )
    yield '<div class="cards">'
    yield from (
        f'<div class="card"><b>{value}</b><span>{what}</span></div>' for value, what in found
    )
    yield "</div>"


def _times(part: float, whole: float) -> str:
    return f"{part / whole:.1f} ×" if whole > 0 else "–"


def _comparison(report: RunReport) -> Iterator[str]:
    told = report.figures
    longest = max(told.sequential, told.makespan, told.bound)
    if longest <= 0:
        return
    rows = (
        ("at best", told.bound, "best", f"bound by {told.bound_by}"),
        ("this run", told.makespan, "took", f"{told.slots} agents at a time, checks included"),
        ("one by one", told.sequential, "", "every attempt after the other, checks left out"),
    )
    yield '<div class="card bars">'
    for name, seconds, kind, what in rows:
        yield (
            f'<span>{name}</span><div><i class="{kind}" '
            f'style="width:{100 * seconds / longest:.1f}%"></i></div>'
            f"<span>{report_text.length(seconds)} "
            f'<span class="dim">{escaped(what)}</span></span>'
        )
    yield "</div>"


def _gantt(report: RunReport) -> Iterator[str]:
    yield "<h2>What ran when</h2>"
    if not report.attempts:
        yield '<p class="dim">Nothing has run yet.</p>'
    elif len(report.attempts) + len(report.checks) > _LARGEST:
        yield '<p class="dim">Too many attempts to draw; the table below has them all.</p>'
    else:
        used = {report_text.kind(one.fate) for one in report.attempts}
        keys = "".join(
            f'<span><i class="{kind}"></i>{what}</span>'
            for kind, what in report_text.KEYS
            if kind in used
        )
        yield f'<div class="keys">{keys}<span>○ landed, ◇ sent back</span></div>'
        yield f'<div class="card scroll">{report_gantt.draw(report)}</div>'


def _graph(report: RunReport) -> Iterator[str]:
    yield "<h2>What waited for what</h2>"
    if len(report.tasks) > _LARGEST:
        yield f'<p class="dim">{len(report.tasks):,} tasks are too many to draw.</p>'
        return
    chain = " → ".join(one.name for one in _chain(report))
    yield (
        '<div class="keys"><span><i class="hot"></i>the chain that decided when the run ended: '
        f"{escaped(chain)}</span></div>"
    )
    yield f'<div class="card scroll">{report_graph.draw(report)}</div>'


def _chain(report: RunReport) -> list[TaskReport]:
    chain = [one for one in report.tasks if one.critical and not one.barrier]
    return sorted(chain, key=lambda one: one.end if one.end is not None else report.seconds)


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
        one = group[0]
        names = escaped(", ".join(report_text.short(each.resource, report.run) for each in group))
        limit = ", no limit" if one.limit is None else f" of {one.limit}"
        yield (
            f'<div class="card"><b>{names}</b> '
            f'<span class="dim">at most {one.peak}{limit}, {one.average:.1f} on average</span>'
            f"{charts.capacity(one, report.seconds)}</div>"
        )
    if report.figures.micro_usd:
        yield (
            f'<div class="card"><b>spent</b> <span class="dim">'
            f"{report_text.dollars(report.figures.micro_usd)} in all</span>"
            f"{charts.spending(report)}</div>"
        )
    yield "</div>"


def _alike(all_of_them: Iterable[LimitUse]) -> list[list[LimitUse]]:
    """Those that would be drawn the same, together."""
    groups: dict[object, list[LimitUse]] = {}
    for one in all_of_them:
        groups.setdefault((one.steps, one.limit, one.penalties), []).append(one)
    return list(groups.values())
