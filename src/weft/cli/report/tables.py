"""The tables of a report: the gate's verdicts, the agents, every attempt."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from weft.cli.report import report_text
from weft.cli.svg_parts import escaped
from weft.runs.report.report_records import AttemptReport, CheckReport, RunReport

_LONGEST: Final = 400  # characters of a reason in a line
_MOST_OUTPUT: Final = 8_000  # characters of what a check printed, its end


def gate(report: RunReport) -> Iterator[str]:
    yield "<h2>The gate</h2>"
    if not report.checks and not report.rejections:
        yield '<p class="dim">Nothing has reached it.</p>'
        return
    rows = [(one.end, _verdict(one)) for one in report.checks]
    for one in report.rejections:
        what = "does not merge" if one.kind == "conflict" else "checks fail"
        what += f" with {', '.join(one.others)}" if one.others else ""
        rows.append((one.at, _row(one.at, "", "sent back", "back", one.tasks, what, one.reason)))
    for landing in report.landings:
        said = ", ".join(commit[:9] for commit in landing.commits)
        rows.append((landing.at, _row(landing.at, "", "landed", "landed", landing.tasks, said, "")))
    yield from _table(
        (("at", "r"), ("took", "r"), ("verdict", ""), ("tasks", ""), ("", "")),
        (row for _, row in sorted(rows, key=lambda one: one[0])),
    )


def _verdict(check: CheckReport) -> str:
    took = "known" if check.reused else report_text.length(check.end - check.start)
    verdict, kind = ("passed", "passed") if check.passed else ("failed", "bad")
    what = f"{check.purpose}, flaky" if check.flaky else check.purpose
    return _row(check.end, took, verdict, kind, check.tasks, what, check.output)


def _row(
    at: float, took: str, verdict: str, kind: str, tasks: Iterable[str], what: str, more: str
) -> str:
    said = _unfolding(what, more) if more.strip() else escaped(what)
    return (
        f'<tr><td class="r n">{report_text.length(at)}</td><td class="r n">{took}</td>'
        f'<td><span class="tag {kind}">{verdict}</span></td>'
        f'<td class="id">{escaped(", ".join(tasks))}</td><td>{said}</td></tr>'
    )


def agents(report: RunReport) -> Iterator[str]:
    """Time, tokens and dollars by agent and stage."""
    groups: dict[tuple[str, str], list[AttemptReport]] = {}
    for one in report.attempts:
        groups.setdefault((one.agent or "", one.stage or ""), []).append(one)
    if not groups:
        return
    yield "<h2>Who worked</h2>"
    yield from _table(
        (
            *(("agent", ""), ("stage", ""), ("attempts", "r"), ("failed", "r")),
            *(("time", "r"), ("tokens", "r"), ("dollars", "r")),
        ),
        (
            f'<tr><td class="id">{escaped(agent)}</td><td>{escaped(stage)}</td>'
            f'<td class="r">{len(group)}</td>'
            f'<td class="r">{sum(one.outcome not in ("success", "running") for one in group)}</td>'
            f'<td class="r">{report_text.length(sum(one.end - one.start for one in group))}</td>'
            f'<td class="r">{sum(one.tokens for one in group):,}</td>'
            f'<td class="r">{report_text.dollars(sum(one.micro_usd for one in group))}</td></tr>'
            for (agent, stage), group in sorted(groups.items())
        ),
    )


def attempts(report: RunReport) -> Iterator[str]:
    yield "<h2>Every attempt</h2>"
    titles = {task.name: task.title for task in report.tasks}
    commits = {task.name: task.commit for task in report.tasks}
    yield from _table(
        (
            *(("task", ""), ("", ""), ("agent", ""), ("stage", ""), ("start", "r")),
            *(("took", "r"), ("outcome", ""), ("tokens", "r"), ("dollars", "r"), ("commit", "")),
        ),
        (_attempt(one, titles[one.task], commits[one.task]) for one in report.attempts),
    )


def _attempt(one: AttemptReport, title: str, landed: str | None) -> str:
    commit = landed if one.fate == "landed" else one.commit
    fate = escaped(report_text.said(one.fate))
    tag = f'<span class="tag {report_text.kind(one.fate)}">{fate}</span>'
    reason = _reason(one.reason) if one.reason.strip() else ""
    return (
        f'<tr data-t="{escaped(one.task)}"><td><span class="id">{escaped(one.task)}</span> '
        f'<span class="dim">{escaped(title)}</span></td><td class="r">{one.number}</td>'
        f'<td class="n">{escaped(one.agent or "")}</td>'
        f'<td class="n">{escaped(one.stage or "")}</td>'
        f'<td class="r n">{report_text.length(one.start)}</td>'
        f'<td class="r n">{report_text.length(one.end - one.start)}</td><td>{tag}{reason}</td>'
        f'<td class="r n">{one.tokens:,}</td>'
        f'<td class="r n">{report_text.dollars(one.micro_usd)}</td>'
        f'<td class="n"><code>{escaped((commit or "")[:9])}</code></td></tr>'
    )


def _reason(text: str) -> str:
    first = report_text.first_line(text)
    whole = first == text.strip() and len(first) <= _LONGEST
    return f'<div class="dim">{escaped(first) if whole else _unfolding(first, text)}</div>'


def _unfolding(first: str, text: str) -> str:
    """A line, and all of the text for who wants to know."""
    lines = "\n".join(map(escaped, text[-_MOST_OUTPUT:].splitlines()))
    return f"<details><summary>{escaped(first[:_LONGEST])}</summary><pre>{lines}</pre></details>"


def _table(header: Iterable[tuple[str, str]], rows: Iterable[str]) -> Iterator[str]:
    yield '<div class="card scroll"><table><thead><tr>'
    yield "".join(f'<th class="{kind}">{name}</th>' for name, kind in header)
    yield "</tr></thead><tbody>"
    yield from rows
    yield "</tbody></table></div>"
