"""What `weft run` says: the plan ahead, and one line for each thing that happens."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import click

from weft.model import Event
from weft.operations.running import Progress
from weft.plan.records import Severity

if TYPE_CHECKING:
    from weft.operations.plans import Checked

Out = Callable[[str], None]


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


def clock(seconds: float) -> str:
    """A time as it passes: 2:31, 1:02:31."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


class RunLines:
    """One line for each thing that happens in a run, for `out`."""

    def __init__(self, run: str, out: Out, *, prefix: str = "") -> None:
        self._run = run
        self._out = out
        self._prefix = prefix
        self._names: dict[int, str] = {}
        self._titles: dict[int, str] = {}
        self._silent: set[int] = set()
        self._began = time.monotonic()
        self._landed: set[int] = set()
        self._all = 0

    def know(self, progress: Progress) -> None:
        """Learn the names, and how far it is."""
        self._landed |= progress.landed.keys()
        self._names = {task.id: task.name for task in progress.tasks}
        self._titles = {task.id: str(task.details.get("title", "")) for task in progress.tasks}
        self._silent = {task.id for task in progress.tasks if task.details.get("barrier")}
        self._all = len(progress.work)

    def tell(self, events: Iterable[Event]) -> None:
        for event in events:
            if event.run in (self._run, None) and event.task not in self._silent:
                text = self._text(event)
                if text:
                    at = duration(time.monotonic() - self._began)
                    self._out(f"[{at:>7}] {self._prefix}{text}")

    def _text(self, event: Event) -> str:
        data = event.data
        if event.kind == "provider_penalised":
            return f"  {data['provider']} is rate limited; fewer agents at a time"
        if event.run is None:
            return ""
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
            case "mirror_failed":
                return f"  the issue {name} is not up to date: {_first(data['reason'])}"
            case "task_approved":
                return f"✓ {name} approved"
        return ""

    def _entry(self, entry: str) -> str:
        number = entry.partition(".")[0]
        return self._names.get(int(number), entry) if number.isdecimal() else entry


def _first(reason: str) -> str:
    line = next((one.strip() for one in reason.splitlines() if one.strip()), "")
    return line if len(line) <= 120 else line[:119] + "…"
