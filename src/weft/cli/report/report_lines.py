"""A report in a few lines, for the terminal."""

from __future__ import annotations

from collections.abc import Iterator

from weft.formats import count, dollars, duration, listed, whole_line
from weft.page.report_words import describe_choice
from weft.runs.report.report_records import RunReport


def lines(report: RunReport) -> Iterator[str]:
    figures = report.figures
    yield f"run {report.run} ({report.title}): {report.state}"
    yield f"{figures.landed} of {figures.tasks} tasks landed in {duration(figures.makespan)}"
    if figures.makespan > 0:
        yield (
            f"at best {duration(figures.bound)} ({figures.bound_by}); "
            f"one by one {duration(figures.sequential)}"
        )
    flaky = f" ({figures.flaky} flaky)" if figures.flaky else ""
    yield (
        f"{count(figures.attempts, 'attempt')} ({figures.failed} failed), "
        f"{count(figures.checks, 'check')}{flaky}, "
        f"{figures.sent_back} sent back, {figures.tokens:,} tokens, {dollars(figures.micro_usd)}"
    )
    predicted = [task.name for task in report.tasks if task.predicted]
    if predicted:
        yield f"files predicted for {listed(predicted)} (`weft why TASK`)"
    for rejection in report.rejections:
        reason = whole_line(rejection.reason)
        yield f"↩ {', '.join(rejection.tasks)} at {duration(rejection.at)}: {reason}"
    for choice in report.choices:
        yield f"★ {choice.task} at {duration(choice.at)}: {describe_choice(choice)}"
    yield "`weft report --html OUT` draws all of it"
