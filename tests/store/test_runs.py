"""Runs in pages."""

from __future__ import annotations

import pytest

from store_helpers import url
from weft.errors import NotFound
from weft.model import NewRun, NewTask
from weft.store import Store
from weft.store.runs import list_runs, page_runs, submit_run

pytestmark = pytest.mark.each_store

__all__ = ["url"]


def test_runs_come_in_pages_newest_first(store: Store) -> None:
    for number in range(6):  # always two at the same moment
        new = NewRun(id=f"r{number}", repo="/r")
        submit_run(store, new, [NewTask(name="t")], now=float(number // 2))
    page, after = page_runs(store, after=None, most=4)
    assert after == page[-1].id
    rest, end = page_runs(store, after=after, most=4)
    assert end is None
    assert [*page, *rest] == list_runs(store)
    with pytest.raises(NotFound):
        page_runs(store, after="r9", most=5)
