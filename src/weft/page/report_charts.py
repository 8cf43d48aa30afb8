"""The charts of a report: the times of attempts and checks, the graph, limits and costs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Final

from msgspec.structs import replace

from weft.formats import dollars, duration, whole_line
from weft.model import ASKED, HANDED_OVER, PROPOSAL, SLEPT
from weft.page.gantt_chart import (
    GanttBar,
    GanttChart,
    GanttMark,
    GanttRow,
    find_folds,
)
from weft.page.graph_chart import GraphChart, GraphNode
from weft.page.step_chart import StepChart
from weft.planning.forecast import Stint
from weft.runs.report_records import (
    AttemptReport,
    CheckReport,
    LimitUse,
    RunReport,
    TaskReport,
    TaskWait,
)
from weft.runs.run_figures import pack_lanes
from weft.words import state_word

_SHORTEST: Final = 0.1  # seconds of the time axis
_PRESSURE: Final = frozenset({"rate_limit", "overload", "capacity"})
_FAILURES: Final = frozenset(
    {
        *("timeout", "context", "auth", "config", "crash"),
        *("no_change", "scope", "other", "red", "conflict"),
    }
)
_KINDS: Final = {
    "landed": ("landed", "✓"),
    "done": ("landed", "✓"),
    "at the gate": ("busy", "·"),
    "running": ("busy", "▸"),
    "sent back": ("back", "↩"),
    HANDED_OVER: ("landed", "⇢"),
    ASKED: ("busy", "?"),
    SLEPT: ("busy", "·"),
    PROPOSAL: ("bad", "✗"),
}


def find_kind(fate: str) -> str:
    """Return the class of a fate in the style sheet."""
    if fate in _PRESSURE:
        return "wait"
    return "bad" if fate in _FAILURES else _KINDS.get(fate, ("off", ""))[0]


def find_sign(fate: str) -> str:
    """Return the sign of a fate, for people who do not see colours."""
    if fate in _PRESSURE:
        return "…"
    return "✗" if fate in _FAILURES else _KINDS.get(fate, ("", "–"))[1]


def describe_fate(fate: str) -> str:
    return fate.replace("_", " ")


def chart_live(report: RunReport, schedule: Sequence[Stint]) -> GanttChart:
    """Return the chart with links, waits by cause, folded idle times and the predicted rest."""
    past = chart_times(report)
    now = report.seconds
    linked = [
        (attempt.slot, replace(_attempt(attempt), address=_log_address(attempt)))
        for attempt in report.attempts
    ]
    lanes = pack_lanes([(wait.start, wait.end) for wait in report.waits])
    waits = [(lane, _wait(wait)) for wait, lane in zip(report.waits, lanes, strict=True)]
    ahead = [(stint.slot, _stint(stint, now)) for stint in schedule if stint.end > stint.start]
    checks = past.groups[1]
    bars = [bar for _, bar in (*linked, *waits)] + [bar for row in checks for bar in row.bars]
    end = max([past.seconds, *(bar.end for _, bar in ahead)])
    return GanttChart(
        label=past.label,
        seconds=end,
        groups=(
            _rows("slot", linked),
            checks,
            _rows("waits", waits),
            _rows("ahead", ahead),
        ),
        line=past.line,
        marks=past.marks,
        folds=find_folds([(bar.start, bar.end) for bar in bars], end),
        now=now if ahead else None,
    )


def _log_address(attempt: AttemptReport) -> str:
    start = "" if attempt.outcome == "running" else "&first=1"
    return f"task/{attempt.task_id}/log?attempt={attempt.number}{start}"


WAITS: Final = {
    "person": "waits for a person",
    "provider": "waits for its provider",
    "room": "waits for a slot, a limit or files",
}


def _wait(wait: TaskWait) -> GanttBar:
    return GanttBar(
        start=wait.start,
        end=wait.end,
        labels=(f"{wait.task} {WAITS[wait.cause]}", wait.task),
        kind=f"hatched {'person' if wait.cause == 'person' else 'off'}",
        hover=(
            f"{wait.task} {WAITS[wait.cause]}",
            f"{duration(wait.start)} to {duration(wait.end)}",
        ),
        task=wait.task,
        address=f"task/{wait.task_id}",
    )


def _stint(stint: Stint, now: float) -> GanttBar:
    start, end = now + stint.start, now + stint.end
    return GanttBar(
        start=start,
        end=end,
        labels=(stint.name, stint.name),
        kind="busy pale",
        hover=(f"{stint.name}, predicted: {duration(start)} to {duration(end)}",),
        task=stint.name,
    )


def chart_times(report: RunReport) -> GanttChart:
    """Return a row for each slot, a row for each check at once, and the landings on trunk."""
    attempts = ((attempt.slot, _attempt(attempt)) for attempt in report.attempts)
    checks = ((check.slot, _check(check)) for check in report.checks if not check.reused)
    marks = [
        *(
            GanttMark(
                at=rejection.at,
                landed=False,
                hover=(f"{', '.join(rejection.tasks)} sent back: {whole_line(rejection.reason)}",),
            )
            for rejection in report.rejections
        ),
        *(
            GanttMark(
                at=landing.at,
                landed=True,
                hover=(f"{', '.join(landing.tasks)} landed at {duration(landing.at)}",),
            )
            for landing in report.landings
        ),
    ]
    return GanttChart(
        label="The times of attempts and checks, by slot",
        seconds=max(
            _SHORTEST,
            report.seconds,
            *(attempt.end for attempt in report.attempts),
            *(check.end for check in report.checks),
        ),
        groups=(_rows("slot", attempts), _rows("check", checks)),
        line="trunk",
        marks=tuple(marks),
    )


def _rows(name: str, bars: Iterable[tuple[int, GanttBar]]) -> tuple[GanttRow, ...]:
    rows: dict[int, list[GanttBar]] = {}
    for slot, bar in bars:
        rows.setdefault(slot, []).append(bar)
    return tuple(
        GanttRow(name=f"{name} {slot + 1}", bars=tuple(row)) for slot, row in sorted(rows.items())
    )


def _attempt(attempt: AttemptReport) -> GanttBar:
    sign = find_sign(attempt.fate)
    again = "" if attempt.number == 1 else f" #{attempt.number}"
    reason = (whole_line(attempt.reason),) if attempt.reason else ()
    return GanttBar(
        start=attempt.start,
        end=attempt.end,
        labels=(f"{sign} {attempt.task}{again}", sign),
        kind=find_kind(attempt.fate),
        hover=(
            f"{attempt.task}, attempt {attempt.number}: {describe_fate(attempt.fate)}",
            f"{duration(attempt.start)} to {duration(attempt.end)}",
            f"{attempt.agent or 'no agent'} ({attempt.stage or 'no stage'}) on {attempt.worker}",
            *reason,
        ),
        task=attempt.task,
    )


def _check(check: CheckReport) -> GanttBar:
    tasks = ", ".join(check.tasks)
    sign = "✓" if check.passed else "✗"
    return GanttBar(
        start=check.start,
        end=check.end,
        labels=(f"{sign} {tasks}", sign),
        kind="landed" if check.passed else "bad",
        hover=(
            f"check of {tasks}: {'passed' if check.passed else 'failed'}",
            f"{duration(check.start)} to {duration(check.end)} ({check.purpose})",
        ),
    )


def chart_graph(report: RunReport, *, linked: bool = False) -> GraphChart:
    """Return the graph of tasks, with the chain that decided the end of the run."""
    tasks = [task for task in report.tasks if not task.barrier]
    nodes = [*tasks, *(task for task in report.tasks if task.barrier)]
    place = {task.name: number for number, task in enumerate(nodes)}
    successors: list[list[int]] = [[] for _ in nodes]
    for task in nodes:
        for need in task.needs:
            successors[place[need]].append(place[task.name])
    return GraphChart(
        label="The tasks, and the tasks each of them waited for",
        nodes=tuple(_node(task, linked=linked) for task in tasks),
        successors=successors,
        critical=frozenset(
            (place[need], place[task.name])
            for task in nodes
            for need in task.needs
            if task.critical and nodes[place[need]].critical
        ),
    )


def _node(task: TaskReport, *, linked: bool) -> GraphNode:
    hover = [
        f"{task.name} {task.title}",
        f"{state_word(task.state)}, {duration(task.seconds)} of agents",
        *([] if task.end is None else [f"ended at {duration(task.end)}"]),
        *([whole_line(task.reason)] if task.reason else []),
    ]
    return GraphNode(
        name=task.name,
        text=task.title,
        note=duration(task.seconds) if task.seconds else state_word(task.state),
        kind=f"{task.state} person" if task.person else task.state,
        critical=task.critical,
        hover=tuple(hover),
        address=f"task/{task.id}" if linked else "",
    )


def chart_limit(use: LimitUse, seconds: float) -> StepChart:
    """Return the use of a limit by the run and by other runs, and the limit itself."""
    peak = max((step.own + step.other_runs for step in use.steps), default=1)
    limit = use.limit
    top = max(1, max(peak, limit) if limit is not None and limit <= 3 * peak else peak)
    both = [(step.at, step.own + step.other_runs) for step in use.steps]
    own = [(step.at, step.own) for step in use.steps]
    shared = any(step.other_runs for step in use.steps)
    return StepChart(
        label=f"Use of {use.resource} over time",
        seconds=seconds,
        top=top,
        top_text=f"{top}",
        areas=((("others", both),) if shared else ()) + (("own", own),),
        lines=(("limit", use.limits),) if limit is not None and limit <= top else (),
        marks=tuple((at, "its provider said it was busy") for at in use.penalties),
    )


def chart_costs(report: RunReport) -> StepChart:
    """Return the dollars spent, counted at the end of each attempt."""
    ended = sorted((attempt.end, attempt.micro_usd) for attempt in report.attempts)
    sums = accumulate(micro_usd for _, micro_usd in ended)
    top = report.figures.micro_usd
    return StepChart(
        label="Dollars spent over time",
        seconds=report.seconds,
        top=max(1, top),
        top_text=dollars(top),
        areas=(("spent", [(at, spent) for (at, _), spent in zip(ended, sums, strict=True)]),),
    )
