"""The choice of a run on top of a view."""

from __future__ import annotations

from collections.abc import Sequence

from weft.page.act_forms import select
from weft.page.markup import Html, Part, tag


def pick_run(view: str, runs: Sequence[str], chosen: str, *more: Part) -> Html:
    """Make the form that puts `?run=` into the address of a view."""
    return tag(
        "form",
        select("run", "Run", [(run, run) for run in runs], chosen),
        *more,
        data_address=view,
        class_="filter",
    )
