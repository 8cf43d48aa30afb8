"""A report in a few lines, for the terminal."""

from __future__ import annotations

from collections.abc import Iterator

from weft.cli.report import report_text
from weft.runs.report.report_records import RunReport


def lines(report: RunReport) -> Iterator[str]:
    told = report.figures
    yield f"run {report.run} ({report.title}): {report.state}"
    yield f"{told.landed} of {told.tasks} tasks landed in {report_text.length(told.makespan)}"
    if told.makespan > 0:
        yield (
            f"at best {report_text.length(told.bound)}, bound by {told.bound_by}; "
            f"one by one {report_text.length(told.sequential)}"
        )
    flaky = f" ({told.flaky} flaky)" if told.flaky else ""
    yield (
        f"{told.attempts} attempts ({told.failed} failed), {told.checks} checks{flaky}, "
        f"{told.sent_back} sent back, {told.tokens:,} tokens, {report_text.dollars(told.micro_usd)}"
    )
    for one in report.rejections:
        reason = report_text.first_line(one.reason)
        yield f"↩ {', '.join(one.tasks)} at {report_text.length(one.at)}: {reason}"
    yield "`weft report --html OUT` draws all of it"
