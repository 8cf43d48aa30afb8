"""The run that a view shows."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import Query
from msgspec import Struct

from weft.model import Run
from weft.store import Store
from weft.store.runs import get_run, page_runs

RunName = Annotated[str, Query(max_length=200)]

_LISTED: Final = 50  # runs to choose from


class RunChoice(Struct, frozen=True, kw_only=True):
    run: Run | None  # None: there is no run yet
    runs: tuple[str, ...]  # newest first


def choose_run(store: Store, name: str) -> RunChoice:
    """Return the named run, or the newest unended run, or the newest."""
    runs, _ = page_runs(store, after=None, most=_LISTED)
    names = [run.id for run in runs]
    if name:
        chosen: Run | None = get_run(store, name)
    else:
        chosen = next((run for run in runs if run.state != "ended"), runs[0] if runs else None)
    if chosen is not None and chosen.id not in names:
        names.append(chosen.id)
    return RunChoice(run=chosen, runs=tuple(names))
