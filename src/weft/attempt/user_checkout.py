"""The user's checkout, branches, settings and hooks, before and after an attempt.

The user may work there too, so a change is only reported, once in a run. Files that weft itself
writes there (marks in a plan, the issues of `bd`, a store, the output of a command) are left out.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import asdict
from glob import escape
from pathlib import Path
from typing import Final

from weft import workspace
from weft.attempt.start_record import Order
from weft.errors import Refused, StoreError, WeftError
from weft.process import attempt_files
from weft.project.site import Site, list_store_files
from weft.store.attempt_reports import note_changes
from weft.store.projections import list_projections
from weft.store.runs import list_runs
from weft.workspace import Fingerprint
from weft.workspace.own_writes import list_own_writes

log = logging.getLogger(__name__)

_FILE: Final = "surroundings.json"
_MOST: Final = 20  # changes that are listed


def remember(site: Site, directory: Path) -> None:
    if site.transport is not None:
        return  # a mirror is no checkout of a user
    try:
        attempt_files.write_record(str(directory / _FILE), asdict(site.looks.recent(site.root)))
    except (WeftError, OSError, ValueError) as error:
        log.warning("could not read the user's checkout: %s", error)


def compare(site: Site, fence: int, order: Order, after: Future[Fingerprint]) -> None:
    """Log an event with the changes since the start that its run has not logged yet.

    `after` is a reading taken after the agent's end.
    """
    path = site.directory(order.task, order.attempt) / _FILE
    try:
        record = attempt_files.find_record(str(path))
        if record is None:
            return
        before, now = Fingerprint(**record), after.result()
        changes = workspace.compare(before, now)
        if changes:
            changes = workspace.compare(before, now, ours=_own_files(site, order))
        if changes:
            note_changes(site.store, fence, order.attempt, changes, most=_MOST, now=time.time())
        path.unlink()
    except (StoreError, Refused):
        log.info("could not report changes of the checkout during task %s", order.task)
    except (WeftError, OSError, ValueError) as error:
        log.warning("could not read the user's checkout: %s", error)


def _own_files(site: Site, order: Order) -> list[str]:
    """List the patterns of files that weft itself writes in the checkout."""
    runs = [run for run in list_runs(site.store) if run.state != "ended" or run.id == order.run]
    plans = [
        Path(run.plan if run.plan.startswith("/") else run.plan.partition(":")[2]) for run in runs
    ]
    files = [
        Path(state.path)
        for run in runs
        for state in list_projections(site.store, run.id)
        if state.path
    ]
    written = [*plans, *files, *list_own_writes(site.common, order.started)]
    # A new version is first written beside the file it replaces.
    beside = [path.parent / f".{path.name[:100]}.weft-" for path in written]
    patterns = [
        escape(name) for name in _within(site.root, [*written, *list_store_files(site.store)])
    ]
    patterns += [f"{escape(name)}*" for name in _within(site.root, beside)]
    return [*patterns, ".beads/*"] if any(plan.suffix == ".jsonl" for plan in plans) else patterns


def _within(root: Path, files: Iterable[Path]) -> list[str]:
    root = root.resolve()
    return [str(file.relative_to(root)) for file in files if file.is_relative_to(root)]
