"""Runs in pages."""

from __future__ import annotations

import pytest

from store_helpers import url
from weft.errors import NotFound
from weft.model import NewRun, NewTask
from weft.store import Store
from weft.store.runs import list_runs, page_runs, submit_run

__all__ = ["url"]


def test_runs_come_in_pages_newest_first_and_only_those_of_a_tenant(store: Store) -> None:
    for number in range(6):  # always two at the same moment
        new = NewRun(id=f"r{number}", repo="/r", tenant=("a", "b")[number == 5])
        submit_run(store, new, [NewTask(name="t")], now=float(number // 2))
    page, after = page_runs(store, tenant=None, after=None, most=4)
    assert after == page[-1].id
    rest, end = page_runs(store, tenant=None, after=after, most=4)
    assert end is None
    assert [*page, *rest] == list_runs(store)
    theirs, more = page_runs(store, tenant="a", after=None, most=5)
    assert ([listed.id for listed in theirs], more) == (["r4", "r2", "r3", "r0", "r1"], None)
    for unknown in ("r9", "r5"):
        with pytest.raises(NotFound):
            page_runs(store, tenant="a", after=unknown, most=5)
