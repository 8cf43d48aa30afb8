"""What a run comes to in numbers: how long, against what was possible, and at what cost. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from weft import forecast
from weft.forecast import Job, Work
from weft.model import RunHistory, Task
from weft.operations.report.records import AttemptReport, CheckReport, Figures, TaskReport


def work_out(
    past: RunHistory,
    tasks: Sequence[TaskReport],
    attempts: Sequence[AttemptReport],
    checks: Sequence[CheckReport],
    sent_back: int,
    slots: int,
) -> Figures:
    bounds = forecast.bounds(_work(past, attempts), max(1, slots))
    by = {
        "the longest path": bounds.critical_path,
        f"{slots} agents at a time": bounds.work_per_slot,
        bounds.file: bounds.busiest_file,
    }
    start = min((one.start for one in attempts), default=0.0)
    ends = [one.end for one in attempts] + [one.end for one in checks]
    ends += [one.end for one in tasks if one.end is not None]
    work = [one for one in tasks if not one.barrier]
    return Figures(
        makespan=max(ends, default=0.0) - start if attempts else 0.0,
        bound=bounds.lower,
        bound_by=max(by, key=lambda name: by[name]),
        sequential=sum(one.end - one.start for one in attempts),
        slots=slots,
        attempts=len(attempts),
        failed=sum(one.outcome not in ("success", "running") for one in attempts),
        checks=sum(not one.reused for one in checks),
        check_seconds=sum(one.end - one.start for one in checks),
        sent_back=sent_back,
        landed=sum(one.commit is not None for one in work),
        tasks=len(work),
        tokens=sum(one.tokens for one in attempts),
        micro_usd=sum(one.micro_usd for one in attempts),
    )


def _work(past: RunHistory, attempts: Sequence[AttemptReport]) -> Work:
    """What had to be done: for each task the last good attempt of each stage."""
    good: dict[str, dict[str | None, float]] = {}
    for one in sorted(attempts, key=lambda one: one.number):
        if one.outcome == "success":
            good.setdefault(one.task, {})[one.stage] = one.end - one.start
    places = {task.id: place for place, task in enumerate(past.tasks)}
    successors: list[list[int]] = [[] for _ in places]
    for task, needs in past.needs.items():
        for need in needs:
            successors[places[need]].append(places[task])
    jobs = tuple(_job(task, sum(good.get(task.name, {}).values())) for task in past.tasks)
    return Work(jobs=jobs, successors=successors)


def _job(task: Task, seconds: float) -> Job:
    return Job(name=task.name, seconds=seconds, runs=seconds > 0, claims=task.files)
