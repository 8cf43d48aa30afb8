"""A report in a few lines, for the terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from weft.formats import count, dollars, duration, listed, whole_line
from weft.runs.report_records import RunReport, describe_choice
from weft.runs.run_figures import describe_times


def lines(report: RunReport) -> Iterator[str]:
    figures = report.figures
    yield f"run {report.run} ({report.title}): {report.state}"
    yield f"{figures.landed} of {figures.tasks} tasks landed"
    if times := describe_times(figures):
        yield times
    flaky = f" ({figures.flaky} flaky)" if figures.flaky else ""
    yield (
        f"{count(figures.attempts, 'attempt')} ({figures.failed} failed), "
        f"{count(figures.checks, 'check')}{flaky}, "
        f"{figures.sent_back} sent back, {figures.tokens:,} tokens, {dollars(figures.micro_usd)}"
    )
    yield from _hosts(report)
    predicted = [task.name for task in report.tasks if task.predicted]
    if predicted:
        yield f"files predicted for {listed(predicted)} (`weft why TASK`)"
    for rejection in report.rejections:
        reason = whole_line(rejection.reason)
        yield f"↩ {', '.join(rejection.tasks)} at {duration(rejection.at)}: {reason}"
    for choice in report.choices:
        yield f"★ {choice.task} at {duration(choice.at)}: {describe_choice(choice)}"
    yield "`weft report --html OUT` draws all of it"


def _hosts(report: RunReport) -> Iterator[str]:
    """Yield the work of each worker host."""
    attempts = Counter(attempt.host for attempt in report.attempts if attempt.host)
    checks = Counter(check.host for check in report.checks if check.host)
    for host in sorted({*attempts, *checks}):
        parts = [(attempts[host], "attempt"), (checks[host], "check")]
        yield f"on {host}: {', '.join(count(number, noun) for number, noun in parts if number)}"
