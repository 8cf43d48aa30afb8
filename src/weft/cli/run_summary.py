"""The end of a run, for people: what was done, how fast against the best possible, what is next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from msgspec import Struct

from weft.forecast import WHOLE, ScheduleBounds
from weft.formats import duration
from weft.model import Attempt, Event, State, TargetState, Task
from weft.runs.outlook import lower_bound
from weft.runs.progress import RunProgress, makespan

_WIDTH: Final = 60
_MOST: Final = 40  # tasks that get a bar each; of more, the slots do
_NAME: Final = 24
_CHANGES: Final = 10  # of what is the user's that are listed
_WORTH_SAYING: Final = 1.05
_CURES: Final = 3  # commands that the last line names


class RunFigures(Struct, frozen=True, kw_only=True):
    """What a run took, beside what it could have taken."""

    wall: float
    work: float  # the same one after the other
    bounds: ScheduleBounds
    chain: tuple[str, ...]  # the longest path, as it really was
    attempts: int
    failed: int
    retries: int
    checks: int
    flaky: int  # checks that passed or failed on what had been found otherwise
    rejected: int
    conflicts: int
    micro_usd: int
    tokens: int

    @property
    def speed_up(self) -> float:
        return self.work / self.wall if self.wall else 0.0


def figures(
    progress: RunProgress, edges: Sequence[tuple[int, int]], slots: int, ended: float | None = None
) -> RunFigures:
    """`slots` is how many could work at once, `ended` when the last of it landed."""
    attempts = progress.attempts
    wall, work = makespan(attempts)
    began = min((one.started for one in attempts), default=0.0)
    if ended is not None and attempts:
        wall = max(wall, ended - began)
    bounds, chain = lower_bound(
        progress.tasks, edges, attempts, max(slots, len(_lanes(attempts)), 1)
    )
    tried = {one.task for one in attempts}
    stages = {(one.task, one.stage) for one in attempts}
    return RunFigures(
        wall=wall,
        work=work,
        bounds=bounds,
        chain=tuple(chain),
        attempts=len(attempts),
        failed=sum(one.outcome not in (None, "success") for one in attempts),
        retries=len(attempts) - len(stages) if tried else 0,
        checks=sum(one.seconds > 0 and one.checked for one in progress.gate.verdicts),
        flaky=len(progress.gate.flaky),
        rejected=sum(entry.state == "rejected" for entry in progress.gate.entries),
        conflicts=len({one.entry for one in progress.gate.conflicts}),
        micro_usd=sum(one.micro_usd for one in attempts),
        tokens=sum(one.tokens for one in attempts),
    )


def figures_as_dict(told: RunFigures) -> dict[str, Any]:
    return {
        "seconds": round(told.wall, 3),
        "agent_seconds": round(told.work, 3),
        "lower_bound_seconds": round(told.bounds.lower, 3),
        "speed_up": round(told.speed_up, 3),
        "attempts": told.attempts,
        "retries": told.retries,
        "checks": told.checks,
        "flaky_checks": told.flaky,
        "sent_back": told.rejected,
        "conflicts": told.conflicts,
    }


def summary_lines(
    progress: RunProgress, told: RunFigures, changed: Sequence[Event]
) -> Sequence[str]:
    """`changed` says what of the user's own did while agents were at work."""
    counts = progress.counts
    done = counts[State.DONE] + counts[State.SKIPPED]
    how = "" if progress.ended else ", not ended"
    lines = [
        "",
        f"run {progress.run.id}: {done} of {len(progress.work)} tasks done{how}",
        *_chart(progress),
        *_bars(told),
        *_counts(told),
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
        lines.append(f"next: git merge --ff-only weft/{progress.run.id}")
    elif not progress.ended:
        lines.append(_next(progress))
    return lines


def _changes(progress: RunProgress, changed: Sequence[Event]) -> Iterator[str]:
    names = {task.id: task.name for task in progress.tasks}
    found: dict[str, dict[str, None]] = {}  # during which tasks, by what changed
    for event in changed:
        for one in event.data["changes"]:
            found.setdefault(one, {})[names.get(event.task or 0, "")] = None
    if not found:
        return
    yield "! something of yours changed while agents were at work:"
    for one, tasks in list(found.items())[:_CHANGES]:
        yield f"    {one} ({', '.join(tasks)})"
    if len(found) > _CHANGES:
        yield f"    … and {len(found) - _CHANGES} more"
    yield "  If that was not you, an agent reached out of its workspace; `weft why TASK` says more."


def _next(progress: RunProgress) -> str:
    """What sets a run going that stands: without its cures it would stand again at once."""
    cures = list(dict.fromkeys(need.do[0] for need in progress.questions))
    more = ", …" if len(cures) > _CURES else ""
    first = f"{', '.join(cures[:_CURES])}{more}, then " if cures else ""
    return f"next: {first}weft run --resume {progress.run.id}"


def _bars(told: RunFigures) -> list[str]:
    """The run, its lower bound and the same work one by one, on one scale."""
    if not told.wall:
        return []
    longest = max(told.wall, told.work)
    best = told.bounds.lower

    def bar(name: str, seconds: float, mark: str, remark: str) -> str:
        drawn = mark * max(1, round(_WIDTH * seconds / longest))
        return f"  {name:<10} {drawn} {duration(seconds)}{remark}"

    lines = [bar("took", told.wall, "█", f", {told.wall / best:.2f} × at best" if best else "")]
    if best:
        lines.append(bar("at best", best, "▒", f" ({limiting(told.bounds, told.chain)})"))
    if told.speed_up >= _WORTH_SAYING:
        remark = f", {told.speed_up:.1f} × as long"
        lines.append(bar("one by one", told.work, "░", remark))
    return lines


def limiting(bounds: ScheduleBounds, chain: Sequence[str]) -> str:
    """What a lower bound comes from; `chain` is the longest path."""
    if bounds.lower == bounds.critical_path:
        shown = chain if len(chain) <= 6 else (*chain[:5], "…", chain[-1])
        return "the path " + " → ".join(shown) if len(shown) > 1 else "its longest task"
    if bounds.lower == bounds.busiest_file:
        whole = bounds.file == WHOLE
        return "what may change any file" if whole else f"all that changes {bounds.file}"
    return "all slots busy"


def _counts(told: RunFigures) -> list[str]:
    parts = [
        _many(told.attempts, "attempt"),
        f"{told.failed} failed",
        _many(told.retries, "retry", "retries"),
        _many(told.checks, "check") + (f" ({told.flaky} flaky)" if told.flaky else ""),
        f"{told.rejected} sent back by the gate",
        _many(told.conflicts, "conflict"),
    ]
    tokens = f"{told.tokens:,} tokens, " if told.tokens else ""
    return [f"  {', '.join(parts)}", f"  {tokens}${told.micro_usd / 1e6:.2f}"]


def _many(number: int, one: str, more: str = "") -> str:
    return f"{number} {one if number == 1 else more or one + 's'}"


def _chart(progress: RunProgress) -> list[str]:
    """Who worked when: each task as a bar over time, or each slot if there are too many."""
    ended = [one for one in progress.attempts if one.ended is not None]
    wall, _ = makespan(ended)
    if not wall:
        return []
    begin = min(one.started for one in ended)
    if len(progress.work) > _MOST:
        return [
            f"  slot {number:<3} │{_bar(lane, begin, wall)}│"
            for number, lane in enumerate(_lanes(ended), 1)
        ]
    width = max(len(_shown(task)) for task in progress.work)
    by_task: dict[int, list[Attempt]] = {}
    for one in ended:
        by_task.setdefault(one.task, []).append(one)
    bars = {task.id: _bar(by_task.get(task.id, ()), begin, wall) for task in progress.work}
    return [
        f"  {_shown(task).ljust(width)} │{bars[task.id]}│ {task.state}" for task in progress.work
    ]


def _shown(task: Task) -> str:
    return task.name if len(task.name) <= _NAME else task.name[: _NAME - 1] + "…"


def _bar(attempts: Sequence[Attempt], begin: float, wall: float) -> str:
    bar = [" "] * _WIDTH
    for one in attempts:
        first = int((one.started - begin) / wall * (_WIDTH - 1))
        last = int(((one.ended or begin) - begin) / wall * (_WIDTH - 1))
        mark = "█" if one.outcome == "success" else "▒"
        bar[first : last + 1] = [mark] * (last + 1 - first)
    return "".join(bar)


def _lanes(attempts: Sequence[Attempt]) -> list[list[Attempt]]:
    """Attempts packed into as few rows as were at work at once."""
    lanes: list[list[Attempt]] = []
    for one in sorted(attempts, key=lambda each: each.started):
        if one.ended is None:
            continue
        free = next((lane for lane in lanes if (lane[-1].ended or 0.0) <= one.started), None)
        if free is None:
            lanes.append([one])
        else:
            free.append(one)
    return lanes
