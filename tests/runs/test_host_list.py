"""Hosts as people see them: slots, labels, checks, signs of life and missing parts."""

from __future__ import annotations

import pytest

from store_helpers import go, hire, put
from store_helpers import url as url
from weft.model import NO_CHECKS, NewMember
from weft.runs.host_list import (
    as_dict,
    describe_host_labels,
    describe_limit,
    describe_seen,
    list_lacks,
    read_hosts,
)
from weft.store import Store
from weft.store.limit_table import list_limits
from weft.store.members import join
from weft.store.probe import count_wanted
from weft.store.workers import depart, heartbeat


@pytest.fixture
def busy(store: Store) -> Store:
    """A store with two workers at home, a worker on a host, a worker that left, and a member."""
    hire(store, "home-1", slots=2, host="home", host_limits={"ram_mb": 1000, "port": 10})
    hire(store, "home-2", slots=3, host="home", labels=("big",), now=5)
    lacks = {"a": "claude is not installed", "b": "KEY is not set", "c": "claude is not installed"}
    hire(store, "far-1", host="far", gates=False, labels=("gpu", "arm64"), lacks=lacks)
    hire(store, "gone-1", host="gone")
    depart(store, "gone-1", now=1)
    join(store, NewMember(id="m", name="m", slots=1, token="t"), now=1)
    put(store, demand={"worker:@": 1, "host:@/ram_mb": 400})
    go(store, "home-1")
    return store


def test_the_workers_of_a_host_are_summed(busy: Store) -> None:
    far, home = read_hosts(busy, now=9)
    assert (home.host, home.slots.current, home.slots.max) == ("home", 1, 5)
    assert {id: slots.max for id, slots in home.workers.items()} == {"home-1": 2, "home-2": 3}
    assert (home.labels, home.duties) == (("big",), "gates, checks")
    assert (far.labels, far.duties) == (("arm64", "gpu"), "no checks")
    assert describe_seen(home, 9) == "seen 4 s ago"


def test_labels_of_workers_that_differ_are_not_merged(busy: Store) -> None:
    far, home = read_hosts(busy, now=9)
    assert describe_host_labels(home) == "no label (2 slots); big (3 slots)"
    assert describe_host_labels(far) == "arm64, gpu"
    assert [worker["labels"] for worker in as_dict(home)["workers"]] == [[], ["big"]]


def test_a_home_that_leaves_checks_to_hosts_says_so(busy: Store) -> None:
    depart(busy, "home-1", now=9)
    depart(busy, "home-2", now=9)
    hire(busy, "home-3", host="home", checks=NO_CHECKS)
    _, home = read_hosts(busy, now=9)
    assert home.duties == "gates, no checks"


def test_a_host_that_takes_checks_says_so(busy: Store) -> None:
    hire(busy, "far-2", host="far", gates=False, checks="Linux x86_64")
    assert read_hosts(busy, now=9)[0].duties == "checks"


def test_memory_and_ports_are_shown_by_host(busy: Store) -> None:
    far, home = read_hosts(busy, now=9)
    limits = list_limits(busy, now=9)
    assert describe_limit(home, "ram_mb", limits) == "400 of 1,000"
    assert describe_limit(home, "port", limits) == "0 of 10"
    assert describe_limit(far, "port", limits) == ""


def test_missing_parts_of_a_host_are_named_with_their_agents(busy: Store) -> None:
    assert list(list_lacks(read_hosts(busy, now=9))) == [
        "far: claude is not installed (for a, c).",
        "far: KEY is not set (for b).",
    ]


def test_a_heartbeat_is_a_sign_of_life(busy: Store) -> None:
    heartbeat(busy, "far-1", now=20)
    far, _ = read_hosts(busy, now=21)
    assert far.seen == 20


def test_wanted_slots_are_told_by_repository_and_labels(busy: Store) -> None:
    for number in range(3):
        put(busy, f"t{number}", demand={"worker:@": 1, "label:gpu": 1, "label:arm64": 1})
    [wanted] = count_wanted(busy, now=9)
    assert (wanted.repo, wanted.labels, wanted.slots) == ("r", ("arm64", "gpu"), 3)
