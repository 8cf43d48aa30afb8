"""The tables of a report: the gate's verdicts, the agents, every attempt."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import itemgetter
from typing import Final

from weft.formats import dollars, duration, whole_line
from weft.page.markup import escaped
from weft.page.report_words import describe_choice, describe_fate, find_kind
from weft.runs.report.report_records import AttemptReport, CheckReport, RunReport

_LONGEST: Final = 400  # characters of a reason in a line
_MOST_OUTPUT: Final = 8_000  # characters of a check's output, from its end


def gate(report: RunReport) -> Iterator[str]:
    yield "<h2>The gate</h2>"
    if not report.checks and not report.rejections:
        yield '<p class="dim">Nothing has reached it.</p>'
        return
    rows = [(check.end, _verdict(check)) for check in report.checks]
    for rejection in report.rejections:
        text = "does not merge" if rejection.kind == "conflict" else "checks fail"
        text += f" with {', '.join(rejection.with_tasks)}" if rejection.with_tasks else ""
        row = _row(rejection.at, "", "sent back", "back", rejection.tasks, text, rejection.reason)
        rows.append((rejection.at, row))
    for choice in report.choices:
        row = _row(choice.at, "", "team", "passed", [choice.task], describe_choice(choice), "")
        rows.append((choice.at, row))
    for landing in report.landings:
        commits = ", ".join(commit[:9] for commit in landing.commits)
        row = _row(landing.at, "", "landed", "landed", landing.tasks, commits, "")
        rows.append((landing.at, row))
    yield from _table(
        "Checks",
        (("at", "r"), ("took", "r"), ("verdict", ""), ("tasks", ""), ("", "")),
        (row for _, row in sorted(rows, key=itemgetter(0))),
    )


def _verdict(check: CheckReport) -> str:
    took = "known" if check.reused else duration(check.end - check.start)
    verdict, kind = ("passed", "passed") if check.passed else ("failed", "bad")
    text = ", ".join(
        [
            check.purpose,
            *(["flaky"] if check.flaky else []),
            *([f"on {check.host}"] if check.host else []),
        ]
    )
    return _row(check.end, took, verdict, kind, check.tasks, text, check.output)


def _row(
    at: float, took: str, verdict: str, kind: str, tasks: Iterable[str], text: str, more: str
) -> str:
    cell = _unfolding(text, more) if more.strip() else escaped(text)
    return (
        f'<tr><td class="r n">{duration(at)}</td><td class="r n">{took}</td>'
        f'<td><span class="tag {kind}">{verdict}</span></td>'
        f'<td class="id">{escaped(", ".join(tasks))}</td><td>{cell}</td></tr>'
    )


def agents(report: RunReport) -> Iterator[str]:
    """Yield the time, tokens and dollars of each agent and stage."""
    groups: dict[tuple[str, str], list[AttemptReport]] = {}
    for attempt in report.attempts:
        groups.setdefault((attempt.agent or "", attempt.stage or ""), []).append(attempt)
    if not groups:
        return
    yield "<h2>Who worked</h2>"
    yield from _table(
        "Agents",
        (
            *(("agent", ""), ("stage", ""), ("attempts", "r"), ("failed", "r")),
            *(("time", "r"), ("tokens", "r"), ("dollars", "r")),
        ),
        (
            f'<tr><td class="id">{escaped(agent)}</td><td>{escaped(stage)}</td>'
            f'<td class="r">{len(group)}</td>'
            f'<td class="r">{sum(attempt.failed for attempt in group)}</td>'
            f'<td class="r">{duration(sum(attempt.end - attempt.start for attempt in group))}</td>'
            f'<td class="r">{sum(attempt.tokens for attempt in group):,}</td>'
            f'<td class="r">{dollars(sum(attempt.micro_usd for attempt in group))}</td></tr>'
            for (agent, stage), group in sorted(groups.items())
        ),
    )


def attempts(report: RunReport) -> Iterator[str]:
    yield "<h2>Every attempt</h2>"
    titles = {task.name: task.title for task in report.tasks}
    commits = {task.name: task.commit for task in report.tasks}
    yield from _table(
        "Attempts",
        (
            *(("task", ""), ("", ""), ("agent", ""), ("stage", ""), ("start", "r")),
            *(("took", "r"), ("outcome", ""), ("tokens", "r"), ("dollars", "r"), ("commit", "")),
        ),
        (
            _attempt(attempt, titles[attempt.task], commits[attempt.task])
            for attempt in report.attempts
        ),
    )


def _attempt(attempt: AttemptReport, title: str, landed: str | None) -> str:
    commit = landed if attempt.fate == "landed" else attempt.commit
    fate = escaped(describe_fate(attempt.fate))
    tag = f'<span class="tag {find_kind(attempt.fate)}">{fate}</span>'
    reason = _reason(attempt.reason) if attempt.reason.strip() else ""
    where = f'<div class="dim">on {escaped(attempt.host)}</div>' if attempt.host else ""
    return (
        f'<tr data-t="{escaped(attempt.task)}"><td><span class="id">{escaped(attempt.task)}</span> '
        f'<span class="dim">{escaped(title)}</span></td><td class="r">{attempt.number}</td>'
        f'<td class="n">{escaped(attempt.agent or "")}{where}</td>'
        f'<td class="n">{escaped(attempt.stage or "")}</td>'
        f'<td class="r n">{duration(attempt.start)}</td>'
        f'<td class="r n">{duration(attempt.end - attempt.start)}</td><td>{tag}{reason}</td>'
        f'<td class="r n">{attempt.tokens:,}</td>'
        f'<td class="r n">{dollars(attempt.micro_usd)}</td>'
        f'<td class="n"><code>{escaped((commit or "")[:9])}</code></td></tr>'
    )


def _reason(text: str) -> str:
    first = whole_line(text)
    whole = first == text.strip() and len(first) <= _LONGEST
    return f'<div class="dim">{escaped(first) if whole else _unfolding(first, text)}</div>'


def _unfolding(first: str, text: str) -> str:
    """Show the first line; the whole text unfolds beneath it."""
    lines = "\n".join(map(escaped, text[-_MOST_OUTPUT:].splitlines()))
    return f"<details><summary>{escaped(first[:_LONGEST])}</summary><pre>{lines}</pre></details>"


def _table(caption: str, header: Iterable[tuple[str, str]], rows: Iterable[str]) -> Iterator[str]:
    """Make a table; a screen reader reads the caption aloud."""
    yield f'<div class="card scroll"><table><caption class="unseen">{caption}</caption><thead><tr>'
    yield "".join(f'<th scope="col" class="{kind}">{name}</th>' for name, kind in header)
    yield "</tr></thead><tbody>"
    yield from rows
    yield "</tbody></table></div>"
