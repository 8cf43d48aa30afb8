"""Durations that were learned change the order of what is left."""

from __future__ import annotations

import pytest

from store_helpers import DONE, go, hire
from weft.model import NewRun, NewTask
from weft.runs.outlook import update_paths
from weft.store import Store
from weft.store.attempt_end import finish
from weft.store.runs import submit_run


def task(name: str, agent: str, *, guess: float) -> NewTask:
    return NewTask(
        name=name,
        agent=agent,
        stage="implement",
        demand={"worker:@": 1},
        files=(f"{name}.py",),
        path_seconds=guess,
    )


@pytest.mark.parametrize(("seconds", "next_one"), [(1.0, "theirs"), (1000.0, "mine")])
def test_what_takes_long_comes_first_once_that_is_known(
    store: Store, seconds: float, next_one: str
) -> None:
    hire(store, slots=1)
    tasks = [
        task("first", "x", guess=600),
        task("mine", "x", guess=300),
        task("theirs", "y", guess=300),
    ]
    submit_run(store, NewRun(id="R", repo="r"), tasks, now=0)
    first = go(store, now=10)
    assert first.name == "first"
    finish(store, first.fence, DONE, now=10 + seconds)
    assert update_paths(store, "R") == 1
    assert go(store, now=2000).name == next_one
    assert update_paths(store, "R") == 0  # no new records
