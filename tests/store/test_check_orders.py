"""Orders for checks: taken as leases, answered under their fence and for their tree alone."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from store_helpers import hire, used
from store_helpers import url as url
from weft.candidate_records import CheckOrder, HostResult, NewCheckOrder
from weft.errors import Refused, StaleFence
from weft.model import NewRun
from weft.store import Store
from weft.store.check_orders import (
    CheckHosts,
    count_hosts,
    decline_check,
    find_order,
    list_checks,
    list_orders,
    order_check,
    report_check,
    take_back_order,
    take_check,
    withdraw_order,
)
from weft.store.leases import (
    find_lost,
    free_proved_dead,
    get_lease,
    release,
    renew,
    suspect_overdue,
    take,
)
from weft.store.limit_table import set_limit
from weft.store.runs import submit_run

pytestmark = pytest.mark.each_store

TREE, HEAD, BASE = "1" * 40, "2" * 40, "3" * 40
MACHINE = "Linux x86_64"
ORDER = NewCheckOrder(
    tree=TREE,
    head=HEAD,
    base=BASE,
    commands=(("make", "test"), ("sh", "-c", "true")),
    entries=("1.1",),
    machine=MACHINE,
)
PASS = HostResult(tree=TREE, passed=True, seconds=2.0, output="ok", ran=2)


def open_gate(store: Store) -> int:
    """Register home and two hosts that take checks, and hold the gate of a run."""
    hire(store, "home")
    for host in ("far", "near"):
        hire(store, host, host=host, slots=1, repos=("r",), gates=False, checks=MACHINE)
    submit_run(store, NewRun(id="run", repo="r", base=BASE, limits={}), [], now=0)
    gate = take(store, "gate", "run", {"gate:run": 1}, worker="home", now=1)
    assert gate is not None
    return gate


def order(store: Store, gate: int) -> int:
    return order_check(store, gate, "run", ORDER, now=1)


def take_order(store: Store, worker: str = "far", *, now: float = 2) -> CheckOrder:
    order = take_check(store, worker, now=now)
    assert order is not None
    return order


def test_a_host_takes_an_order_as_a_lease_and_its_gate_reads_the_result(store: Store) -> None:
    gate = open_gate(store)
    assert find_order(store, "far") is None
    number = order(store, gate)
    assert find_order(store, "far") == number
    taken = take_order(store)
    assert (taken.run, taken.tree, taken.head, taken.base) == ("run", TREE, HEAD, BASE)
    assert taken.commands == ORDER.commands
    assert get_lease(store, taken.fence).kind == "check"
    assert used(store, "worker:far") == used(store, "requests") == 1
    [check] = list_checks(store, "run")
    assert (check.entries, check.host) == (ORDER.entries, "far")
    assert take_check(store, "near", now=2) is None, "it is taken once"
    report_check(store, taken.fence, PASS, now=9)
    report_check(store, taken.fence, replace(PASS, passed=False), now=9)  # the first answer counts
    [state] = list_orders(store, gate)
    assert (state.number, state.host, state.result) == (number, "far", PASS)
    assert used(store, "worker:far") == 0
    withdraw_order(store, gate, number, now=9)
    assert list_orders(store, gate) == []


def test_the_result_of_another_tree_is_refused(store: Store) -> None:
    gate = open_gate(store)
    order(store, gate)
    fence = take_order(store).fence
    with pytest.raises(Refused):
        report_check(store, fence, replace(PASS, tree="9" * 40), now=3)
    assert list_orders(store, gate)[0].result is None


@pytest.mark.parametrize("wrong", [{"ran": 1}, {"ran": 3}, {"ran": -1, "passed": False}])
def test_a_pass_without_all_commands_is_refused(store: Store, wrong: dict[str, int]) -> None:
    gate = open_gate(store)
    order(store, gate)
    with pytest.raises(Refused):
        report_check(store, take_order(store).fence, replace(PASS, **wrong), now=3)


def test_the_result_under_an_ended_fence_is_refused(store: Store) -> None:
    """Its lease was freed, and another host runs the check again."""
    gate = open_gate(store)
    order(store, gate)
    late = take_order(store).fence
    suspect_overdue(store, now=1e6)
    assert free_proved_dead(store, late, now=1e6, proof="silent")
    again = take_order(store, "near", now=1e6).fence
    for fence in (late, gate, 12345):
        with pytest.raises(StaleFence):
            report_check(store, fence, PASS, now=1e6)
        with pytest.raises(StaleFence):
            decline_check(store, fence, "no", now=1e6)
    report_check(store, again, PASS, now=1e6 + 5)
    assert list_orders(store, gate)[0].host == "near"


def test_the_result_under_a_released_fence_is_refused(store: Store) -> None:
    gate = open_gate(store)
    order(store, gate)
    fence = take_order(store).fence
    release(store, fence, now=3)
    with pytest.raises(StaleFence):
        report_check(store, fence, PASS, now=3)


def test_a_withdrawn_order_and_the_order_of_a_gate_that_was_left_are_lost(store: Store) -> None:
    gate = open_gate(store)
    number = order(store, gate)
    fence = take_order(store).fence
    assert renew(store, [fence], now=3) == []
    withdraw_order(store, gate, number, now=3)
    assert find_lost(store, [fence]) == renew(store, [fence], now=3) == [fence]
    with pytest.raises(StaleFence):
        report_check(store, fence, PASS, now=3)
    release(store, fence, now=3)
    order(store, gate)
    fence = take_order(store).fence
    release(store, gate, now=4)
    assert find_lost(store, [fence]) == [fence]
    with pytest.raises(StaleFence):
        report_check(store, fence, PASS, now=4)
    with pytest.raises(StaleFence):
        order(store, gate)


def test_an_order_is_taken_back_while_no_worker_runs_it(store: Store) -> None:
    gate = open_gate(store)
    number = order(store, gate)
    fence = take_order(store).fence
    assert not take_back_order(store, gate, number)
    release(store, fence, now=3)
    assert find_order(store, "near") == number, "it can be taken again"
    assert take_back_order(store, gate, number)
    assert find_order(store, "near") is None


def test_a_declined_order_is_taken_by_no_other_host(store: Store) -> None:
    gate = open_gate(store)
    order(store, gate)
    decline_check(store, take_order(store).fence, "make is missing", now=3)
    [state] = list_orders(store, gate)
    assert (state.declined, state.taken) == ("make is missing", False)
    assert find_order(store, "near") is None


def test_only_workers_that_take_checks_on_such_a_machine_see_an_order(store: Store) -> None:
    gate = open_gate(store)
    order(store, gate)
    hire(store, "none", host="none", repos=("r",), gates=False)
    hire(store, "arm", host="arm", repos=("r",), gates=False, checks="Linux aarch64")
    hire(store, "other", host="other", repos=("other",), gates=False, checks=MACHINE)
    for worker in ("home", "none", "arm", "other", "nobody"):
        assert find_order(store, worker) is None, worker


def test_free_slots_of_hosts_are_counted_without_tasks_checks_and_orders(store: Store) -> None:
    gate = open_gate(store)

    def count(now: float = 2) -> CheckHosts:
        return count_hosts(store, "run", MACHINE, now=now)

    assert count() == CheckHosts(workers=2, free=2)
    assert count_hosts(store, "run", "Linux aarch64", now=2) == CheckHosts()
    order(store, gate)
    assert count() == CheckHosts(workers=2, free=1)
    take_order(store)
    assert count() == CheckHosts(workers=2, free=1)
    order(store, gate)
    assert take_check(store, "far", now=2) is None, "its slot is taken"
    set_limit(store, "requests", 1, now=2)
    assert take_check(store, "near", now=2) is None
    assert count(now=1e6) == CheckHosts(workers=0, free=0), "they are silent"


def test_the_seconds_and_the_output_of_a_result_are_bounded(store: Store) -> None:
    gate = open_gate(store)
    order(store, gate)
    fence = take_order(store, now=2).fence
    report_check(store, fence, replace(PASS, seconds=1e9, output="x" * 100_000), now=5)
    [state] = list_orders(store, gate)
    assert state.result is not None
    assert state.result.seconds == 3
    assert len(state.result.output) == 32_000
