"""The user's checkout, branches, settings and hooks, before and after an attempt.

The user may work there too, so a change is only reported, once in a run. Files that weft itself
writes there (marks in a plan, the issues of `bd`, a store, the output of a command) are left out.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import asdict
from glob import escape
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from weft import workspace
from weft.attempt.start_record import Order
from weft.errors import Refused, StoreError, WeftError
from weft.process import attempt_files
from weft.project.site import Site
from weft.store import Store
from weft.store.leases import note_changes
from weft.store.runs import list_runs
from weft.workspace import Fingerprint
from weft.workspace.own_writes import list_own_writes

log = logging.getLogger(__name__)

_FILE: Final = "surroundings.json"
_MOST: Final = 20  # changes that are told one by one


def remember(site: Site, directory: Path) -> None:
    try:
        attempt_files.write_record(str(directory / _FILE), asdict(site.looks.recent(site.root)))
    except (WeftError, OSError, ValueError) as error:
        log.warning("the checkout could not be looked at: %s", error)


def compare(site: Site, fence: int, order: Order, after: Future[Fingerprint]) -> None:
    """Log an event with the changes since the attempt began that its run has not been told of.

    `after` is a reading taken after the agent's end.
    """
    path = site.directory(order.task, order.attempt) / _FILE
    try:
        record = attempt_files.find_record(str(path))
        if record is None:
            return
        before, now = Fingerprint(**record), after.result()
        found = workspace.compare(before, now)
        if found:
            found = workspace.compare(before, now, ours=_own_files(site, order))
        if found:
            note_changes(site.store, fence, order.attempt, found, most=_MOST, now=time.time())
        path.unlink()
    except (StoreError, Refused):
        log.info("what changed around task %s could not be told", order.task)
    except (WeftError, OSError, ValueError) as error:
        log.warning("the checkout could not be looked at: %s", error)


def _own_files(site: Site, order: Order) -> list[str]:
    """List the patterns of files that weft itself writes in the checkout."""
    plans = [
        Path(run.plan if run.plan.startswith("/") else run.plan.partition(":")[2])
        for run in list_runs(site.store)
        if run.state != "ended" or run.id == order.run
    ]
    written = [*plans, *list_own_writes(site.common, order.started)]
    # A new version is first written beside the file it replaces.
    beside = [one.parent / f".{one.name[:100]}.weft-" for one in written]
    found = [escape(one) for one in _within(site.root, [*written, *store_files(site.store)])]
    found += [f"{escape(one)}*" for one in _within(site.root, beside)]
    return [*found, ".beads/*"] if any(one.suffix == ".jsonl" for one in plans) else found


def _within(root: Path, files: Iterable[Path]) -> list[str]:
    root = root.resolve()
    return [str(one.relative_to(root)) for one in files if one.is_relative_to(root)]


def store_files(store: Store) -> list[Path]:
    """List the files of an SQLite store, and the tokens that servers left beside it."""
    if not store.url.startswith("sqlite:///"):
        return []
    path = os.path.realpath(unquote(store.url.removeprefix("sqlite:///")))
    files = [Path(path + ending) for ending in ("", "-wal", "-shm", "-journal")]
    return [*files, *Path(path).parent.glob("*.token")]
