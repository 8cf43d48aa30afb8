"""The summary at the end of a run: tasks, times, costs and the next command."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from weft.cli.text_gantt import draw_bars
from weft.formats import count, dollars
from weft.model import BELOW_TEAM, STEPS, TargetState, Task
from weft.page.gantt_chart import GanttBar, GanttChart, GanttRow
from weft.runs.progress import RunProgress
from weft.runs.run_figures import (
    DAY,
    RunFigures,
    describe_times,
    find_breaks,
    find_work,
    pack_lanes,
)
from weft.words import land_command, progress_text, task_state

_CHART: Final = 76  # columns of the chart
_MOST: Final = 40  # tasks that get a row each; of more, the slots do
_NAME: Final = 24
_CHANGES: Final = 10  # files outside those of their tasks that are listed
_CURES: Final = 3  # commands that the last line names


def figures_as_dict(figures: RunFigures) -> dict[str, Any]:
    return {
        "seconds": round(figures.makespan, 3),
        "waited_seconds": round(figures.waited, 3),
        "one_by_one_seconds": round(figures.sequential, 3),
        "attempts": figures.attempts,
        "retries": figures.retries,
        "checks": figures.checks,
        "flaky_checks": figures.flaky,
        "sent_back": figures.sent_back,
        "conflicts": figures.conflicts,
    }


def summary_lines(
    progress: RunProgress,
    figures: RunFigures,
    outside: Mapping[str, Sequence[int]] = MappingProxyType({}),
) -> Sequence[str]:
    """Return the summary; `outside` are the files that tasks changed besides their own."""
    how = "" if progress.ended else ", not ended"
    lines = [
        "",
        f"run {progress.run.id}: {progress_text(progress.counts)}{how}",
        *_chart(progress),
        *([f"  {times}"] if (times := describe_times(figures)) else []),
        *_counts(figures),
    ]
    lines += _list_outside(progress, outside)
    lines += [f"! {need}" for need in progress.questions]
    tip, run = progress.tip, progress.run
    if run.target_text:
        mark = "! " if run.target_state is TargetState.REFUSED else ""
        lines.append(mark + run.target_text)
    if run.target_state is TargetState.MOVED:
        return lines
    if tip is not None and tip != run.base and progress.ended:
        lines.append(f"next: {land_command(run)}")
    elif not progress.ended:
        lines.append(_next(progress))
    return lines


def _list_outside(progress: RunProgress, outside: Mapping[str, Sequence[int]]) -> Iterator[str]:
    names = {task.id: task.name for task in progress.tasks}
    if outside:
        yield "  also changed, outside the files of their tasks:"
    for path, tasks in list(outside.items())[:_CHANGES]:
        yield f"    {path} ({', '.join(names.get(task, '') for task in tasks)})"
    if len(outside) > _CHANGES:
        yield f"    … and {len(outside) - _CHANGES} more"


def _next(progress: RunProgress) -> str:
    """Return the commands that let a stopped run go on: its cures first, then the run."""
    cures = list(dict.fromkeys(need.do[0] for need in progress.questions))
    more = ", …" if len(cures) > _CURES else ""
    first = f"{', '.join(cures[:_CURES])}{more}, then " if cures else ""
    return f"next: {first}weft run --resume {progress.run.id}"


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
    spans = {
        attempt: span
        for attempt in progress.attempts
        if attempt.ended is not None and (span := find_work(attempt, now=0.0)) is not None
    }
    if not spans:
        return []
    within = min(start for start, _ in spans.values()), max(end for _, end in spans.values())
    breaks = find_breaks(spans.values(), within, DAY)  # a clock jumped

    def place(at: float) -> float:
        return at - within[0] - sum(end - start for start, end in breaks if end <= at)

    bars = [
        GanttBar(
            start=place(start),
            end=place(end),
            kind="landed" if attempt.outcome in ("success", *STEPS) else "bad",
        )
        for attempt, (start, end) in spans.items()
    ]
    rows: dict[int, list[GanttBar]] = {}
    if len(progress.work) > _MOST:
        lanes = pack_lanes([(bar.start, bar.end) for bar in bars])
        names = {lane: (f"slot {lane + 1}", "") for lane in sorted(set(lanes))}
    else:
        teams = {task.id: task.story for task in progress.tasks if task.request.kind in BELOW_TEAM}
        lanes = [teams.get(attempt.task) or attempt.task for attempt in spans]
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
