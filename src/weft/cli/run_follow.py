"""Serving and following a run: the loops in this process, and what happens as lines."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import anyio
import click
from anyio.to_thread import run_sync

from weft.cli.run_text import RunLines
from weft.engine import Interrupted, guard, open_site, serving
from weft.model import Event
from weft.operations.project import Project
from weft.operations.running import Marks, Progress, look, tip_of
from weft.store import Store
from weft.store.events import read_events

_NET = 1.0  # seconds after which to look although nobody rang
_SETTLES = 1.0  # seconds a run may look stuck before it is taken to be


@dataclass(frozen=True, kw_only=True)
class Follow:
    run: str
    slots: int
    after: int  # the last event before the run was submitted or resumed
    writes: bool  # whether the plan file's marks follow the run
    quiet: bool


def follow(project: Project, store: Store, what: Follow) -> int:
    """Serve and follow a run; 0 once it has ended well, 1 if it needs a person or failed."""
    return anyio.run(_follow, project, store, what)


async def _follow(project: Project, store: Store, what: Follow) -> int:
    with open_site(store, project.root, project.config, project.environment) as site:
        try:
            async with (
                serving(site, slots=what.slots) as scheduler,
                anyio.create_task_group() as group,
            ):
                group.start_soon(guard, site, scheduler.worker)
                code = await _watch(project, store, what)
                group.cancel_scope.cancel()
        except Interrupted:
            await run_sync(_mark, project, store, what)
            raise KeyboardInterrupt from None
    return code


async def _watch(project: Project, store: Store, what: Follow) -> int:
    lines = RunLines(what.run, quiet=what.quiet)
    marks = await run_sync(_marks, store, what)
    after = what.after
    stuck_since: float | None = None
    with store.listen("events") as listener:
        while True:
            progress = await run_sync(look, store, what.run)
            lines.know(progress)
            while events := await run_sync(_read, store, after):
                after = events[-1].id
                lines.tell(events)
            progress = await run_sync(look, store, what.run)
            if marks is not None:
                await run_sync(_write, marks, progress, project.root)
            if progress.ended:
                return 0 if not progress.questions() and _all_met(progress) else 1
            now = time.monotonic()
            stuck_since = (stuck_since or now) if progress.stuck else None
            if stuck_since is not None and now - stuck_since > _SETTLES:
                return 1
            with anyio.move_on_after(_NET):
                await anyio.wait_readable(listener)
            listener.wait(0)


def _all_met(progress: Progress) -> bool:
    return all(task.state.value in ("done", "skipped") for task in progress.tasks)


def _read(store: Store, after: int) -> list[Event]:
    return read_events(store, after=after)


def _marks(store: Store, what: Follow) -> Marks | None:
    path = Path(look(store, what.run).run.plan)
    if not what.writes:
        return None
    if not path.is_file():
        click.echo(f"weft: {path} is not here; its marks are left alone.", err=True)
        return None
    return Marks(path)


def _write(marks: Marks, progress: Progress, root: Path) -> None:
    marks.bring_up_to_date(progress, tip_of(root, progress.run.id))


def _mark(project: Project, store: Store, what: Follow) -> None:
    marks = _marks(store, what)
    if marks is not None:
        _write(marks, look(store, what.run), project.root)
