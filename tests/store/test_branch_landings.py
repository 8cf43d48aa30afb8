"""The rows of `weft land`: recorded before a branch moves, one open move for each branch."""

from __future__ import annotations

import pytest

from weft.candidate_records import BranchLanding
from weft.errors import NotFound, Refused
from weft.model import NewRun
from weft.store import Store
from weft.store.branch_landings import (
    complete_branch_landing,
    intend_branch_landing,
    list_branch_landings,
    list_landed_branches,
    list_open_branch_landings,
    withdraw_branch_landing,
)
from weft.store.event_log import read_events
from weft.store.runs import submit_run

OLD, NEW, TREE = "1" * 40, "2" * 40, "3" * 40


def intend(store: Store, branch: str, run: str = "r") -> BranchLanding:
    ends = {"trunk": NEW, "old": OLD, "new": NEW, "tree": TREE}
    return intend_branch_landing(store, run, branch, **ends, checkout="/c", now=1)


@pytest.fixture
def runs(store: Store) -> Store:
    for run, repo in (("r", "/r"), ("s", "/r"), ("t", "/t")):
        submit_run(store, NewRun(id=run, repo=repo, base=OLD, branch="main"), [], now=0)
    return store


def kinds(store: Store) -> list[str]:
    return [event.kind for event in read_events(store, most=100) if "branch" in event.kind]


def test_a_branch_of_a_repository_has_one_open_move(runs: Store) -> None:
    intend(runs, "main")
    with pytest.raises(Refused, match="Another `weft land` moves main"):
        intend(runs, "main", "s")
    intend(runs, "other", "s")
    intend(runs, "main", "t")
    assert [landing.run for landing in list_open_branch_landings(runs, "/r")] == ["r", "s"]


def test_a_move_is_completed_once(runs: Store) -> None:
    landing = intend(runs, "main")
    assert (landing.state, landing.checkout, landing.branch) == ("intended", "/c", "main")
    for _ in range(2):
        complete_branch_landing(runs, landing.number, now=2)
    withdraw_branch_landing(runs, landing.number, "late", now=3)
    assert [one.state for one in list_branch_landings(runs, "r")] == ["landed"]
    assert kinds(runs) == ["branch_landing_intended", "branch_landed"]
    intend(runs, "main", "s")


def test_a_withdrawn_move_is_not_completed(runs: Store) -> None:
    landing = intend(runs, "main")
    withdraw_branch_landing(runs, landing.number, "it moved", now=2)
    complete_branch_landing(runs, landing.number, now=3)
    assert [one.state for one in list_branch_landings(runs, "r")] == ["withdrawn"]
    assert list_landed_branches(runs, "r") == []
    assert kinds(runs) == ["branch_landing_intended", "branch_landing_withdrawn"]


def test_moves_of_unknown_runs_and_numbers_are_refused(runs: Store) -> None:
    with pytest.raises(NotFound):
        intend(runs, "main", "x")
    with pytest.raises(NotFound):
        complete_branch_landing(runs, 9, now=1)
    with pytest.raises(NotFound):
        withdraw_branch_landing(runs, 9, "it moved", now=1)
