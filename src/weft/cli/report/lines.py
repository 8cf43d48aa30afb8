"""A report in a few lines, for the terminal."""

from __future__ import annotations

from collections.abc import Iterator

from weft.cli.report import words
from weft.operations.report.records import Report


def lines(report: Report) -> Iterator[str]:
    told = report.figures
    yield f"run {report.run} ({report.title}): {report.state}"
    yield f"{told.landed} of {told.tasks} tasks landed in {words.length(told.makespan)}"
    if told.makespan > 0:
        yield (
            f"at best {words.length(told.bound)}, bound by {told.bound_by}; "
            f"one by one {words.length(told.sequential)}"
        )
    flaky = f" ({told.flaky} flaky)" if told.flaky else ""
    yield (
        f"{told.attempts} attempts ({told.failed} failed), {told.checks} checks{flaky}, "
        f"{told.sent_back} sent back, {told.tokens:,} tokens, {words.dollars(told.micro_usd)}"
    )
    for one in report.rejections:
        reason = words.first_line(one.reason)
        yield f"↩ {', '.join(one.tasks)} at {words.length(one.at)}: {reason}"
    yield "`weft report --html OUT` draws all of it"
