"""Reports of runs: a run's history read from the store once, and the records made of it."""

from __future__ import annotations

import time
from typing import Any

from msgspec import to_builtins

from weft.errors import InputError
from weft.runs.report.report_records import RunReport
from weft.runs.report.timeline import build_report
from weft.store import Store
from weft.store.runs import list_runs, read_history


def read(store: Store, run: str | None) -> RunReport:
    """Report on a run, or on the newest run."""
    if run is None:
        runs = list_runs(store)
        if not runs:
            raise InputError("There is no run to report on; `weft run FILE` makes one.")
        run = runs[0].id
    now = time.time()
    return build_report(read_history(store, run, now=now), now=now)


def as_json(report: RunReport) -> dict[str, Any]:
    fields: dict[str, Any] = to_builtins(report)
    return fields
