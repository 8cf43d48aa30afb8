"""The score: by time, against a baseline, and the weights that follow from it."""

from __future__ import annotations

import pytest

from bench.planted_history import plant_commits, plant_topics
from weft.model import PredictedFile
from weft.planning.history import History
from weft.planning.predictor import Clue, FileTree
from weft.planning.score import (
    ClueRecord,
    PastChange,
    PredictionCase,
    add_records,
    replay,
    score,
    weigh_clues,
)


def guess(path: str, probability: float = 0.5) -> PredictedFile:
    return PredictedFile(
        path=path, probability=probability, reason="r", clues={Clue.NAME: probability}
    )


def test_the_figures_count_the_first_five_files() -> None:
    six = tuple(guess(f"f{number}") for number in range(6))
    result = score([PredictionCase(predicted=six, changed=frozenset({"f0", "f5"}), named=("f5",))])
    assert result.recall == 0.5
    assert result.precision == pytest.approx(0.2)
    assert result.all_files == 1.0
    assert result.named_recall == 0.5


def test_predictions_beat_the_paths_in_messages_on_a_planted_history() -> None:
    commits = list(plant_commits(500, plant_topics(30)))
    history = History()
    changes = []
    for commit in commits:
        number = history.size
        history.add(commit.message, commit.files)
        if history.size > number:
            changes.append(PastChange(number=number, message=commit.message, files=commit.files))
    tree = FileTree({file for commit in commits[:400] for file in commit.files})
    result = score(list(replay(history, tree, changes[-80:])))
    assert result.cases > 70
    assert result.recall > 0.7 > 5 * result.named_recall
    assert result.is_enough


def test_the_prediction_of_a_commit_does_not_know_that_commit_or_later_commits() -> None:
    history = History()
    for number in range(30):
        history.add("unrelated", [f"x{number}.py"])
    for _ in range(3):
        history.add("zebra", ["zebra_file.py"])
    change = PastChange(number=30, message="zebra", files=("zebra_file.py",))
    tree = FileTree(["q.py", "zebra_file.py"])
    [case] = replay(history, tree, [change])
    clues = {clue for file in case.predicted for clue in file.clues}
    assert Clue.MESSAGE not in clues


def test_a_clue_that_is_seldom_right_loses_weight_and_a_good_clue_gains() -> None:
    usual = weigh_clues(dict.fromkeys(Clue, ClueRecord()))
    assert set(usual.values()) == {1.0}
    records = dict.fromkeys(Clue, ClueRecord())
    for _ in range(50):
        predicted = (guess("wrong.py", 0.8),)
        records = add_records(records, PredictionCase(predicted=predicted, changed=frozenset("x")))
    assert weigh_clues(records)[Clue.NAME] < 0.3
    for _ in range(400):
        predicted = (guess("right.py", 0.2),)
        case = PredictionCase(predicted=predicted, changed=frozenset({"right.py"}))
        records = add_records(records, case)
    assert weigh_clues(records)[Clue.NAME] > 2.0
    assert weigh_clues(records)[Clue.PATH] == 1.0


def test_a_clue_of_another_version_is_left_out() -> None:
    file = PredictedFile(path="a", probability=0.5, reason="r", clues={"dream": 0.5})
    records = dict.fromkeys(Clue, ClueRecord())
    case = PredictionCase(predicted=(file,), changed=frozenset({"a"}))
    assert add_records(records, case) == records
