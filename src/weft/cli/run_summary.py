"""The summary at the end of a run: tasks, times, costs and the next command."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from weft.charts.gantt_chart import GanttBar, GanttChart, GanttRow, pack_lanes
from weft.charts.text_gantt import draw_bars
from weft.formats import count, dollars, duration
from weft.model import BELOW_TEAM, STEPS, Event, TargetState, Task
from weft.runs.progress import RunProgress
from weft.runs.run_figures import RunFigures
from weft.words import progress_text, task_state

_WIDTH: Final = 36  # of bars
_CHART: Final = 76  # columns of the chart
_MOST: Final = 40  # tasks that get a row each; of more, the slots do
_NAME: Final = 24
_CHANGES: Final = 10  # changes of the user's files that are listed
_WORTH_SAYING: Final = 1.05
_CURES: Final = 3  # commands that the last line names


def figures_as_dict(figures: RunFigures) -> dict[str, Any]:
    return {
        "seconds": round(figures.makespan, 3),
        "waited_seconds": round(figures.waited, 3),
        "one_by_one_seconds": round(figures.sequential, 3),
        "lower_bound_seconds": round(figures.bound, 3),
        "speed_up": round(figures.speed_up, 3),
        "attempts": figures.attempts,
        "retries": figures.retries,
        "checks": figures.checks,
        "flaky_checks": figures.flaky,
        "sent_back": figures.sent_back,
        "conflicts": figures.conflicts,
    }


def summary_lines(
    progress: RunProgress, figures: RunFigures, changed: Sequence[Event]
) -> Sequence[str]:
    """Return the summary; `changed` are events about changes of the user's own files."""
    how = "" if progress.ended else ", not ended"
    lines = [
        "",
        f"run {progress.run.id}: {progress_text(progress.counts)}{how}",
        *_chart(progress),
        *_bars(figures),
        *_counts(figures),
    ]
    lines += [*_changes(progress, changed)]
    lines += [f"! {need}" for need in progress.questions]
    tip, run = progress.tip, progress.run
    if run.target_text:
        mark = "! " if run.target_state is TargetState.REFUSED else ""
        lines.append(mark + run.target_text)
    if run.target_state is TargetState.MOVED:
        return lines
    if tip is not None and tip != run.base and progress.ended:
        lines.append(f"next: weft land {progress.run.id}")
    elif not progress.ended:
        lines.append(_next(progress))
    return lines


def _changes(progress: RunProgress, changed: Sequence[Event]) -> Iterator[str]:
    names = {task.id: task.name for task in progress.tasks}
    changes: dict[str, dict[str, None]] = {}  # tasks under way, by change
    for event in changed:
        for change in event.data["changes"]:
            changes.setdefault(change, {})[names.get(event.task or 0, "")] = None
    if not changes:
        return
    yield "! files of yours changed while agents were working:"
    for change, tasks in list(changes.items())[:_CHANGES]:
        yield f"    {change} ({', '.join(tasks)})"
    if len(changes) > _CHANGES:
        yield f"    … and {len(changes) - _CHANGES} more"
    yield "  If you did not change them, an agent left its workspace; see `weft why TASK`."


def _next(progress: RunProgress) -> str:
    """Return the commands that let a stopped run go on: its cures first, then the run."""
    cures = list(dict.fromkeys(need.do[0] for need in progress.questions))
    more = ", …" if len(cures) > _CURES else ""
    first = f"{', '.join(cures[:_CURES])}{more}, then " if cures else ""
    return f"next: {first}weft run --resume {progress.run.id}"


def _bars(figures: RunFigures) -> list[str]:
    """Draw the run, its lower bound and the same work in sequence, on the same scale."""
    if not figures.makespan:
        return []
    longest = max(figures.makespan, figures.sequential)
    best = figures.bound

    def bar(name: str, seconds: float, mark: str, remark: str) -> str:
        drawn = mark * max(1, round(_WIDTH * seconds / longest))
        return f"  {name:<10} {drawn} {duration(seconds)}{remark}"

    against = f", {figures.makespan / best:.2f} × at best" if best else ""
    paused = (
        f", without {duration(figures.waited)} of waiting for you" if figures.waited >= 1 else ""
    )
    lines = [bar("took", figures.makespan, "█", against + paused)]
    if best:
        lines.append(bar("at best", best, "▒", f" ({figures.bound_by})"))
    if figures.speed_up >= _WORTH_SAYING:
        remark = f", {figures.speed_up:.1f} × as long"
        lines.append(bar("one by one", figures.sequential, "░", remark))
    return lines


def _counts(figures: RunFigures) -> list[str]:
    retries = "1 retry" if figures.retries == 1 else f"{figures.retries} retries"
    parts = [
        count(figures.attempts, "attempt"),
        f"{figures.failed} failed",
        retries,
        count(figures.checks, "check") + (f" ({figures.flaky} flaky)" if figures.flaky else ""),
        f"{figures.sent_back} sent back by the gate",
        count(figures.conflicts, "conflict"),
    ]
    tokens = f"{figures.tokens:,} tokens, " if figures.tokens else ""
    return [f"  {', '.join(parts)}", f"  {tokens}{dollars(figures.micro_usd)}"]


def _chart(progress: RunProgress) -> list[str]:
    """Draw a row of attempts for each task, or for each slot if the tasks are many."""
    spans = [(attempt, attempt.ended) for attempt in progress.attempts if attempt.ended is not None]
    if not spans:
        return []
    begin = min(attempt.started for attempt, _ in spans)
    bars = [
        GanttBar(
            start=attempt.started - begin,
            end=ended - begin,
            kind="landed" if attempt.outcome in ("success", *STEPS) else "bad",
        )
        for attempt, ended in spans
    ]
    rows: dict[int, list[GanttBar]] = {}
    if len(progress.work) > _MOST:
        lanes = pack_lanes([(bar.start, bar.end) for bar in bars])
        names = {lane: (f"slot {lane + 1}", "") for lane in sorted(set(lanes))}
    else:
        teams = {task.id: task.story for task in progress.tasks if task.request.kind in BELOW_TEAM}
        lanes = [teams.get(attempt.task) or attempt.task for attempt, _ in spans]
        names = {task.id: (_short_name(task), task_state(task)) for task in progress.work}
    # Entrants of a team overlap in its row: a success is drawn over a failure.
    for lane, bar in sorted(zip(lanes, bars, strict=True), key=lambda pair: pair[1].kind):
        rows.setdefault(lane, []).append(bar)
    chart = GanttChart(
        label="",
        seconds=max(bar.end for bar in bars),
        groups=(
            tuple(
                GanttRow(name=name, bars=tuple(rows.get(lane, ())), note=note)
                for lane, (name, note) in names.items()
            ),
        ),
    )
    return [f"  {line}".rstrip() for line in draw_bars(chart, _CHART)]


def _short_name(task: Task) -> str:
    return task.name if len(task.name) <= _NAME else task.name[: _NAME - 1] + "…"
