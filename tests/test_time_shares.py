from __future__ import annotations

from time_shares import REST, exceeded


def test_a_directory_over_its_share_of_the_test_time_is_named() -> None:
    shares = {"gate": 60, REST: 30}
    assert exceeded({"gate": 59, "plan": 30, "store": 11}, shares) == []
    gate, plan = exceeded({"gate": 65, "plan": 34, "store": 1}, shares)
    assert gate == "tests/gate took 65.0 % of all test time; budgets.toml allows 60 %."
    assert plan.startswith("tests/plan took 34.0 %")
