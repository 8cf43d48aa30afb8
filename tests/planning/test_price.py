"""The price of claims: a redo against waiting; hubs and declared files apart."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cases import each_case
from weft.model import PredictedFile
from weft.planning.claim_choice import (
    LEAST_SURE,
    ClaimPrices,
    TaskFiles,
    choose_claims,
    is_worth_claiming,
)

PRICES = ClaimPrices(redo=300.0, hold=360.0)


def guess(path: str, probability: float, *, may_touch: bool = False) -> PredictedFile:
    return PredictedFile(
        path=path, probability=probability, reason="r", clues={}, may_touch=may_touch
    )


def claimed(files: tuple[PredictedFile, ...]) -> list[str]:
    return [file.path for file in files if file.claimed]


@each_case(
    ("probability", "rivals", "worth"),
    [
        (0.9, [], False),  # no task touches it: nothing to save, and no task waits
        (0.9, [1.0], True),  # 0.9 x 300 > 0.1 x 180
        (0.3, [1.0], False),  # 0.3 x 300 < 0.7 x 180
        (0.6, [1.0], True),  # 0.6 x 300 > 0.4 x 180
        (0.6, [1.0] * 5, False),  # five tasks would wait: 180 < 0.4 x 900
        (1.0, [0.01], True),
    ],
)
def test_a_claim_is_worth_it_when_the_redo_costs_more_than_the_waiting(
    probability: float, rivals: list[float], worth: bool
) -> None:
    assert is_worth_claiming(probability, rivals, PRICES) is worth


def test_a_file_is_claimed_if_another_task_may_touch_it() -> None:
    tasks = {
        "1": TaskFiles(predicted=(guess("a.py", 0.9), guess("b.py", 0.8))),
        "2": TaskFiles(predicted=(guess("c.py", 0.9), guess("b.py", 0.8))),
        "3": TaskFiles(declared=("lib/**",)),
        "4": TaskFiles(predicted=(guess("d.py", 0.9), guess("lib/x.py", 0.8))),
    }
    chosen = choose_claims(tasks, 4, PRICES)
    assert claimed(chosen["1"]) == ["a.py", "b.py"]
    assert claimed(chosen["4"]) == ["d.py", "lib/x.py"]
    assert claimed(choose_claims({"1": tasks["1"]}, 4, PRICES)["1"]) == ["a.py"]


def test_tasks_that_are_not_known_yet_touch_a_file_as_often_as_commits_do() -> None:
    tasks = {"1": TaskFiles(predicted=(guess("a.py", 0.9), guess("b.py", 0.8), guess("c", 0.2)))}
    rates = {"b.py": 0.05, "c": 0.05}
    assert claimed(choose_claims(tasks, 4, PRICES, rates=rates)["1"]) == ["a.py", "b.py"]
    assert claimed(choose_claims(tasks, 1, PRICES, rates=rates)["1"]) == ["a.py"]


def test_files_that_tasks_at_work_hold_count() -> None:
    tasks = {"1": TaskFiles(predicted=(guess("a.py", 0.9), guess("b.py", 0.8)))}
    assert claimed(choose_claims(tasks, 4, PRICES, [("b.py", 7)])["1"]) == ["a.py", "b.py"]


paths = st.sampled_from(["a.py", "b.py", "lib/c.py", "CHANGELOG.md"])
guesses = st.lists(
    st.builds(guess, paths, st.floats(0.01, 1.0), may_touch=st.booleans()),
    max_size=4,
    unique_by=lambda file: file.path,
).map(tuple)
files = st.builds(
    TaskFiles, declared=st.sampled_from([(), ("a.py",), ("lib/**",)]), predicted=guesses
)
prices = st.builds(ClaimPrices, redo=st.floats(0.0, 1e6), hold=st.floats(0.0, 1e6))


@given(st.dictionaries(st.sampled_from("1234"), files), st.integers(1, 8), prices)
def test_declared_files_win_and_a_hub_is_never_claimed(
    tasks: dict[str, TaskFiles], slots: int, prices: ClaimPrices
) -> None:
    chosen = choose_claims(tasks, slots, prices)
    for name, task in tasks.items():
        if task.declared:
            assert name not in chosen
        elif name in chosen:
            assert not any(file.claimed and file.may_touch for file in chosen[name])
            assert any(file.claimed for file in chosen[name])
            assert [file.path for file in chosen[name]] == [file.path for file in task.predicted]
        else:
            assert all(f.may_touch or f.probability < LEAST_SURE for f in task.predicted)
