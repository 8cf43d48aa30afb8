"""What a run comes to in numbers: how long, against what was possible, and at what cost. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from weft.model import RunHistory
from weft.runs.outlook import lower_bound
from weft.runs.report.report_records import AttemptReport, CheckReport, ReportFigures, TaskReport


def work_out(
    past: RunHistory,
    tasks: Sequence[TaskReport],
    attempts: Sequence[AttemptReport],
    checks: Sequence[CheckReport],
    sent_back: int,
    slots: int,
) -> ReportFigures:
    edges = [(task, need) for task, needs in past.needs.items() for need in needs]
    bounds, _ = lower_bound(past.tasks, edges, past.attempts, max(1, slots))
    by = {
        "the longest path": bounds.critical_path,
        f"{slots} agents at a time": bounds.work_per_slot,
        bounds.file: bounds.busiest_file,
    }
    start = min((one.start for one in attempts), default=0.0)
    ends = [one.end for one in attempts] + [one.end for one in checks]
    ends += [one.end for one in tasks if one.end is not None]
    work = [one for one in tasks if not one.barrier]
    return ReportFigures(
        makespan=max(ends, default=0.0) - start if attempts else 0.0,
        bound=bounds.lower,
        bound_by=max(by, key=lambda name: by[name]),
        sequential=sum(one.end - one.start for one in attempts),
        slots=slots,
        attempts=len(attempts),
        failed=sum(one.outcome not in ("success", "running") for one in attempts),
        checks=sum(not one.reused for one in checks),
        flaky=sum(one.flaky for one in checks),
        check_seconds=sum(one.end - one.start for one in checks),
        sent_back=sent_back,
        landed=sum(one.commit is not None for one in work),
        tasks=len(work),
        tokens=sum(one.tokens for one in attempts),
        micro_usd=sum(one.micro_usd for one in attempts),
    )
