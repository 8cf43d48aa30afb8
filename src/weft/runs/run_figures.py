"""The figures of a run: its time against the least time possible, its attempts and its costs."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from msgspec import Struct

from weft import forecast, graph
from weft.candidate_records import GateRows
from weft.charts.gantt_chart import pack_lanes
from weft.forecast import WHOLE, ForecastJob, ForecastWork, ScheduleBounds
from weft.model import MET, TERMINAL, Attempt, Task, TaskKind

_LONGEST_CHAIN = 6  # names of a chain that are shown

Span = tuple[float, float]
"""The start and the end of something, in seconds."""


class RunFigures(Struct, frozen=True, kw_only=True):
    tasks: int
    landed: int
    makespan: float  # seconds from the first start to the last end, without waits for people
    waited: float  # seconds of waits for people and pauses in which no agent and no check ran
    sequential: float  # seconds of all attempts and a check for each landing, one by one
    bound: float  # least seconds of any schedule of the attempts that were needed
    bound_by: str  # reason for the bound, for people
    slots: int  # agents at a time, at most
    attempts: int
    failed: int
    retries: int
    checks: int
    flaky: int  # checks whose tree got the opposite verdict before
    check_seconds: float
    sent_back: int
    conflicts: int
    tokens: int
    micro_usd: int

    @property
    def speed_up(self) -> float:
        return self.sequential / self.makespan if self.makespan else 0.0


def measure_run(
    tasks: Sequence[Task],
    edges: Sequence[tuple[int, int]],
    attempts: Sequence[Attempt],
    gate: GateRows,
    *,
    slots: int,
    now: float,
    waits: Sequence[Span] = (),
    checks_run: Sequence[Span] = (),
) -> RunFigures:
    """Compute the figures of a run; attempts under way count until `now`.

    `slots` is the number of attempts that may run at once, if not more really did. `waits` are the
    times in which a task was paused or needed a person, `checks_run` those of checks.
    """
    spans = [
        (attempt.started, now if attempt.ended is None else attempt.ended) for attempt in attempts
    ]
    ends = [end for _, end in spans]
    ends += [task.since for task in tasks if task.state in TERMINAL]
    began = min((start for start, _ in spans), default=0.0)
    slots = max(1, slots, *(lane + 1 for lane in pack_lanes(spans)))
    needed = find_needed(tasks, attempts, gate)
    bounds, chain = find_bounds(tasks, edges, needed, slots)
    end = max(ends, default=0.0)
    waited = measure_idle(waits, [*spans, *checks_run], (began, end)) if attempts else 0.0
    makespan = max(0.0, end - began - waited) if attempts else 0.0
    work = {task.id for task in tasks if task.request.kind is TaskKind.WORK}
    landed = {entry for row in gate.landings if row.state == "landed" for entry in row.entries}
    checks = [
        verdict.seconds for verdict in gate.verdicts if verdict.checked and verdict.seconds > 0
    ]
    landed_tasks = {
        task for entry in gate.entries if entry.id in landed for task in (*entry.tasks, entry.story)
    }
    landed_work = len(landed_tasks & work)
    usual_check = statistics.median(checks) if checks else 0.0
    return RunFigures(
        tasks=len(work),
        landed=landed_work,
        makespan=makespan,
        waited=waited,
        sequential=sum(end - start for start, end in spans) + landed_work * usual_check,
        bound=min(bounds.lower, makespan),
        bound_by=explain_bound(bounds, chain),
        slots=slots,
        attempts=len(attempts),
        failed=sum(attempt.failed for attempt in attempts),
        retries=len(attempts) - len({(attempt.task, attempt.stage) for attempt in attempts}),
        checks=len(checks),
        flaky=len(gate.flaky),
        check_seconds=sum(checks),
        sent_back=sum(entry.state == "rejected" for entry in gate.entries),
        conflicts=len({conflict.entry for conflict in gate.conflicts}),
        tokens=sum(attempt.tokens for attempt in attempts),
        micro_usd=sum(attempt.micro_usd for attempt in attempts),
    )


def find_needed(
    tasks: Sequence[Task], attempts: Sequence[Attempt], gate: GateRows
) -> list[Attempt]:
    """List the attempts that a perfect run would have had too: the last success in each stage.

    An attempt that failed, or whose work was refused, is no part of a lower bound.
    """
    last = {
        (attempt.task, attempt.stage): attempt
        for attempt in attempts
        if attempt.outcome == "success" and attempt.ended is not None
    }
    refused = {task.id for task in tasks if task.state not in MET}
    refused -= {task for entry in gate.entries if entry.state == "landed" for task in entry.tasks}
    return [attempt for attempt in last.values() if attempt.task not in refused]


def measure_idle(waits: Sequence[Span], busy: Sequence[Span], within: Span) -> float:
    """Return the seconds of waits in which nothing ran."""
    steps: list[tuple[float, int, int]] = []  # time, change of waits, change of busy spans
    for spans, wait in ((waits, 1), (busy, 0)):
        for span in spans:
            start, end = max(span[0], within[0]), min(span[1], within[1])
            if start < end:
                steps += [(start, wait, 1 - wait), (end, -wait, wait - 1)]
    idle, waiting, running, before = 0.0, 0, 0, within[0]
    for at, wait, run in sorted(steps):
        if waiting and not running:
            idle += at - before
        waiting, running, before = waiting + wait, running + run, at
    return idle


def find_bounds(
    tasks: Sequence[Task],
    edges: Sequence[tuple[int, int]],
    attempts: Sequence[Attempt],
    slots: int,
) -> tuple[ScheduleBounds, list[str]]:
    """Return the bounds of any schedule of these attempts, and the longest chain of tasks."""
    seconds: dict[int, float] = {}
    for attempt in attempts:
        if attempt.ended is not None:
            spent = attempt.ended - attempt.started
            seconds[attempt.task] = seconds.get(attempt.task, 0.0) + spent
    jobs = tuple(
        ForecastJob(name=task.name, seconds=seconds.get(task.id, 0.0), claims=task.files)
        for task in tasks
    )
    successors = list_successors(tasks, edges)
    weights = [job.seconds for job in jobs]
    chain = graph.heaviest_path(successors, weights) if jobs else []
    names = [
        tasks[node].name
        for node in chain
        if weights[node] and tasks[node].request.kind is TaskKind.WORK
    ]
    return forecast.bounds(ForecastWork(jobs=jobs, successors=successors), slots), names


def list_successors(tasks: Sequence[Task], edges: Sequence[tuple[int, int]]) -> list[list[int]]:
    """Turn edges (task, needed task) into the places of each task's successors."""
    place = {task.id: node for node, task in enumerate(tasks)}
    successors: list[list[int]] = [[] for _ in tasks]
    for after, before in edges:
        if after in place and before in place:
            successors[place[before]].append(place[after])
    return successors


def explain_bound(bounds: ScheduleBounds, chain: Sequence[str]) -> str:
    """Return the reason for a lower bound; `chain` is the longest path."""
    if bounds.lower == bounds.critical_path:
        shown = chain if len(chain) <= _LONGEST_CHAIN else (*chain[:5], "…", chain[-1])
        return "the path " + " → ".join(shown) if len(shown) > 1 else "its longest task"
    if bounds.lower == bounds.busiest_file:
        whole = bounds.file == WHOLE
        return "what may change any file" if whole else f"all that changes {bounds.file}"
    return "all slots busy"
