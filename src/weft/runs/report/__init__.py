"""Reports of runs: a run's history read from the store once, and the records made of it."""

from __future__ import annotations

import time
from typing import Any

from msgspec import to_builtins

from weft.runs.attempt_hosts import find_hosts
from weft.runs.report.report_records import RunReport
from weft.runs.report.timeline import build_report
from weft.runs.task_list import get_run_or_newest
from weft.store import Store
from weft.store.run_history import read_history


def read(store: Store, run: str | None) -> RunReport:
    """Report on a run, or on the newest run."""
    now = time.time()
    chosen = get_run_or_newest(store, run)
    past = read_history(store, chosen.id, now=now)
    return build_report(past, now=now, hosts=find_hosts(store, past.attempts, now=now))


def as_json(report: RunReport) -> dict[str, Any]:
    fields: dict[str, Any] = to_builtins(report)
    return fields
