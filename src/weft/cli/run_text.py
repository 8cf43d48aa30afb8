"""What `weft run` says: the plan ahead, one line for each thing that happens, the summary."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import click

from weft.cli.output import say
from weft.model import Event, State
from weft.operations.plans import Checked
from weft.operations.running import Progress, makespan, tip_of
from weft.plan.records import Severity


def print_problems(checked: Checked) -> None:
    for problem in checked.problems:
        if problem.severity is Severity.ERROR:
            where = f"{problem.file}:{problem.line}:{problem.column}"
            click.echo(f"{where}: {problem.message} {problem.suggestion}".rstrip(), err=True)


def print_forecast(checked: Checked) -> None:
    """What is about to happen, in two lines."""
    left = [task for task in checked.compiled.plan.tasks if not task.settled]
    ahead = checked.forecast
    click.echo(
        f"{checked.name}: {len(left)} tasks, up to {checked.compiled.width} at once, "
        f"{ahead.slots} slots; about {duration(ahead.seconds)}, at best "
        f"{duration(ahead.bounds.lower)}"
    )


def duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"


class RunLines:
    """One line for each thing that happens in a run."""

    def __init__(self, run: str, *, quiet: bool) -> None:
        self._run = run
        self._quiet = quiet
        self._names: dict[int, str] = {}
        self._titles: dict[int, str] = {}
        self._silent: set[int] = set()
        self._began = time.monotonic()
        self._landed: set[int] = set()
        self._all = 0

    def know(self, progress: Progress) -> None:
        """Learn the names, and how far it is."""
        self._names = {task.id: task.name for task in progress.tasks}
        self._titles = {task.id: str(task.details.get("title", "")) for task in progress.tasks}
        self._silent = {task.id for task in progress.tasks if task.details.get("barrier")}
        self._all = len(progress.work)

    def tell(self, events: Iterable[Event]) -> None:
        for event in events:
            if event.run == self._run and event.task not in self._silent:
                text = self._text(event)
                if text and not self._quiet:
                    at = duration(time.monotonic() - self._began)
                    say(f"[{at:>7}] {text}")

    def _text(self, event: Event) -> str:
        data = event.data
        name = self._names.get(event.task or 0, "")
        match event.kind:
            case "task_admitted":
                again = f", attempt {data['attempt']}" if data["attempt"] > 1 else ""
                return f"▶ {name}{again}: {self._titles.get(event.task or 0, '')}"
            case "attempt_adopted":
                return f"▶ {name} goes on, adopted from a weft that is gone"
            case "attempt_finished" if data["outcome"] == "success":
                return f"✓ {name} has its candidate" if data["state"] == "gating" else f"✓ {name}"
            case "attempt_finished":
                return f"✗ {name}: {_first(data['reason'])} → {data['state']}"
            case "attempt_released":
                return f"✗ {name} handed back: {data['reason']}"
            case "checked":
                entries = ", ".join(self._entry(one) for one in data["entries"])
                verdict = "passed" if data["passed"] else "failed"
                return f"  check of {entries} {verdict} in {data['seconds']:.1f} s"
            case "entry_rejected":
                return f"↩ {self._entry(data['entry'])} goes back: {_first(data['reason'])}"
            case "task_landed":
                self._landed.add(event.task or 0)
                return f"● {name} landed as {data['commit'][:9]} ({len(self._landed)}/{self._all})"
            case "task_blocked" | "gate_blocked":
                return f"! {name or 'the gate'} needs you: {_first(data['reason'])}"
            case "task_approved":
                return f"✓ {name} approved"
            case "provider_penalised":
                return f"  {data['provider']} is rate limited; fewer agents at a time"
        return ""

    def _entry(self, entry: str) -> str:
        number = entry.partition(".")[0]
        return self._names.get(int(number), entry) if number.isdecimal() else entry


def _first(reason: str) -> str:
    line = next((one.strip() for one in reason.splitlines() if one.strip()), "")
    return line if len(line) <= 120 else line[:119] + "…"


def summary_lines(progress: Progress, root: Path, moved: str | None) -> Sequence[str]:
    """The end of a run, for people."""
    counts = progress.counts
    done = counts[State.DONE] + counts[State.SKIPPED]
    wall, work = makespan(progress.attempts)
    failed = [one for one in progress.attempts if one.outcome not in (None, "success")]
    rejected = sum(entry.state == "rejected" for entry in progress.gate.entries)
    checks = sum(one.seconds > 0 for one in progress.gate.verdicts)
    dollars = sum(one.micro_usd for one in progress.attempts) / 1e6
    lines = [
        "",
        f"run {progress.run.id}: {done} of {len(progress.work)} tasks done in {duration(wall)}"
        + (f", {work / wall:.1f} × as fast as one by one" if work > wall > 0 else ""),
        *_chart(progress, wall),
        f"{len(progress.attempts)} attempts ({len(failed)} failed), {checks} checks, "
        f"{rejected} sent back by the gate, ${dollars:.2f}",
    ]
    lines += [f"! {question}" for question in progress.questions()]
    tip = tip_of(root, progress.run.id)
    if moved:
        lines.append(moved)
    elif tip is not None and tip != progress.run.base and progress.ended:
        lines.append(f"next: git merge --ff-only weft/{progress.run.id}")
    elif not progress.ended:
        lines.append(f"next: weft run --resume {progress.run.id}")
    return lines


_WIDTH = 60


def _chart(progress: Progress, wall: float) -> list[str]:
    """Each task as a bar over time."""
    ended = [one for one in progress.attempts if one.ended is not None]
    if not ended or not wall or len(progress.work) > 40:
        return []
    begin = min(one.started for one in ended)
    names = {task.id: task.name for task in progress.work}
    width = max((len(name) for name in names.values()), default=0)
    lines = []
    for task in progress.work:
        bar = [" "] * _WIDTH
        for one in ended:
            if one.task == task.id:
                first = int((one.started - begin) / wall * (_WIDTH - 1))
                last = int(((one.ended or begin) - begin) / wall * (_WIDTH - 1))
                mark = "█" if one.outcome == "success" else "▒"
                bar[first : last + 1] = [mark] * (last + 1 - first)
        lines.append(f"  {task.name.ljust(width)} │{''.join(bar)}│ {task.state}")
    return lines
