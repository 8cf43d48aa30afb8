"""Predicted files at work: in plan checks and submissions, by score, setting and declaration."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bench.planted_history import CHANGELOG, plant_commits, plant_topics, write_repository
from cli.in_process import teller, told
from repositories import commit_all
from weft.errors import InputError
from weft.model import AttemptFiles, PredictedFile
from weft.operations import single_task
from weft.plan.plan_records import WHOLE_REPOSITORY
from weft.planning.predictor import Clue
from weft.project.project import get_project
from weft.runs import plan_check
from weft.runs.file_prediction import count_declared, list_cases, score_attempts
from weft.runs.plan_check import CheckedPlan, PlanSource
from weft.store import open_store
from weft.store.tasks import get_task

TOPICS = plant_topics(30)
COMMITS = list(plant_commits(240, TOPICS))
FIRST, SECOND = TOPICS[8], TOPICS[9]
AGENT = "---\nruns: scripted\n---\n{{ task.text }}\n"


def about(topic: Any) -> str:
    return f"Rework {' '.join(topic.words[1:])}"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository whose history predicts well."""
    root = tmp_path_factory.mktemp("predicted") / "r"
    write_repository(root, COMMITS)
    (root / ".weft" / "agents").mkdir(parents=True)
    (root / ".weft" / "agents" / "implement.md").write_text(AGENT)
    commit_all(root, "agents")
    return root


@pytest.fixture(scope="module")
def young(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with too little history."""
    root = tmp_path_factory.mktemp("young") / "r"
    write_repository(root, COMMITS[:30])
    return root


def plan_text(*tasks: str) -> bytes:
    lines = ["## Phase 1: All", "<!-- execution: parallel -->"]
    return "\n".join([*lines, *(f"- [ ] {task}" for task in tasks)]).encode()


def check(root: Path, *tasks: str) -> CheckedPlan:
    source = PlanSource(name="plan.md", data=plan_text(*tasks))
    with plan_check.setting(root, {}) as around:
        return plan_check.check(source, around, 4)


def test_a_task_without_files_claims_predicted_files_and_runs_beside_others(root: Path) -> None:
    checked = check(root, about(FIRST), about(SECOND))
    one, two = checked.compiled.plan.tasks
    assert one.claims[0] in FIRST.files
    assert two.claims[0] in SECOND.files
    assert CHANGELOG in [file.path for file in one.predicted if file.may_touch]
    assert checked.forecast.at_once == 2
    assert checked.problems == ()
    assert checked.prediction is not None
    assert checked.prediction.note.startswith("The files of 2 tasks are predicted")


def test_where_the_history_is_too_young_a_task_runs_alone_and_the_check_says_so(
    young: Path,
) -> None:
    checked = check(young, about(FIRST))
    assert checked.compiled.plan.tasks[0].claims == (WHOLE_REPOSITORY,)
    assert [problem.code for problem in checked.problems] == ["no-files"]
    assert checked.prediction is not None
    assert not checked.prediction.used
    assert "to learn from, and 80 are needed" in checked.prediction.note
    assert checked.prediction.tasks["1.1"]


def test_where_predictions_are_poor_they_are_shown_and_not_used(tmp_path: Path) -> None:
    root = tmp_path / "r"
    shuffled = [
        type(commit)(f"change {number}", (f"f{number * 7 % 90}.py", f"f{number * 11 % 90}.py"))
        for number, commit in enumerate(COMMITS[:120])
    ]
    write_repository(root, shuffled)
    checked = check(root, "Change the colours")
    assert checked.compiled.plan.tasks[0].claims == (WHOLE_REPOSITORY,)
    assert checked.prediction is not None
    assert "recall at 5 files is 0." in checked.prediction.note
    assert "and 0.5 is needed" in checked.prediction.note


def test_the_setting_turns_predictions_off(root: Path) -> None:
    (root / "weft.toml").write_text("[plan]\npredict = false\n")
    try:
        checked = check(root, about(FIRST))
    finally:
        (root / "weft.toml").unlink()
    assert checked.prediction is None
    assert checked.compiled.plan.tasks[0].claims == (WHOLE_REPOSITORY,)


topics = st.sampled_from([about(topic) for topic in TOPICS])
declared = st.sampled_from(["", "src/own.py", "lib/**", "none", CHANGELOG])


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(topics, declared), min_size=1, max_size=4))
def test_declared_files_always_win_and_what_may_be_touched_is_never_claimed(
    root: Path, tasks: list[tuple[str, str]]
) -> None:
    texts = [f"{text}\n  <!-- files: {own} -->" if own else text for text, own in tasks]
    compiled = check(root, *texts).compiled
    for task, (_, own) in zip(compiled.plan.tasks, tasks, strict=True):
        if own:
            assert task.claims == (() if own == "none" else (own,))
            assert task.predicted == ()
        else:
            assert CHANGELOG not in task.claims


def test_a_task_of_which_nothing_is_known_runs_alone(root: Path) -> None:
    checked = check(root, "Qqqq wwww", about(FIRST))
    unknown, known = checked.compiled.plan.tasks
    assert unknown.claims == (WHOLE_REPOSITORY,)
    assert known.claims != (WHOLE_REPOSITORY,)
    assert [problem.line for problem in checked.problems if problem.code == "no-files"] == [3]


def test_the_command_shows_files_reasons_and_claims_within_80_columns(
    root: Path, tmp_path: Path
) -> None:
    (root / "plan.md").write_bytes(plan_text(about(FIRST), f"{about(SECOND)}\n  files: x.py"))
    tell = teller(root, f"sqlite:///{tmp_path / 'weft.db'}")
    shown = tell("plan", "predict", "plan.md")
    assert all(len(line) <= 80 for line in shown.splitlines())
    assert f"* {FIRST.files[0]}" in shown or f"* {FIRST.files[1]}" in shown
    assert f"may touch {CHANGELOG}" in shown
    assert "1 task left out" in shown
    answer = told(tell, "plan", "predict", "plan.md")
    assert answer["used"]
    [task] = answer["tasks"]
    assert task["id"] == "1.1"
    best = task["files"][0]
    assert best["path"] in FIRST.files
    assert best["claimed"]
    assert "commits that" in best["reason"]


def test_the_command_predicts_a_text_and_scores_the_repository(root: Path, tmp_path: Path) -> None:
    tell = teller(root, f"sqlite:///{tmp_path / 'weft.db'}")
    [task] = told(tell, "plan", "predict", about(FIRST))["tasks"]
    assert task["files"][0]["path"] in FIRST.files
    scored = told(tell, "plan", "predict", "--score")["score"]
    assert scored["history"]["recall"] > max(0.5, scored["history"]["named_recall"])
    assert scored["used"]
    words = tell("plan", "predict", "--score")
    assert "recall at 5 files" in words
    assert all(len(line) <= 80 for line in words.splitlines())


@pytest.mark.parametrize("argument", ["plam.md", "", "  "])
def test_a_missing_plan_and_an_empty_text_are_refused(
    root: Path, tmp_path: Path, argument: str
) -> None:
    tell = teller(root, f"sqlite:///{tmp_path / 'weft.db'}")
    with pytest.raises(InputError):
        tell("plan", "predict", argument)


def attempt(*changed: str, predicted: str = "", declared: tuple[str, ...] = ()) -> AttemptFiles:
    file = PredictedFile(path=predicted, probability=0.5, reason="r", clues={Clue.NAME: 0.5})
    hub = PredictedFile(path="hub", probability=0.5, reason="r", clues={}, may_touch=True)
    return AttemptFiles(
        task=1,
        attempt=1,
        predicted=(file, hub) if predicted else (),
        declared=declared,
        asked=(),
        changed=changed,
    )


def test_attempts_are_scored_without_hubs_and_without_those_that_had_no_prediction() -> None:
    attempts = [
        attempt("a", "hub", predicted="a"),
        attempt("b", predicted="a"),
        attempt("hub", predicted="a"),
        attempt("b", "lib/x", declared=("lib/**",)),
    ]
    assert len(list_cases(attempts)) == 2
    assert score_attempts(attempts).recall == 0.5
    assert count_declared(attempts) == (1, 0.5)


def test_a_task_by_itself_claims_predicted_files_unless_it_names_its_own(
    root: Path, tmp_path: Path
) -> None:
    project = get_project(root, dict(os.environ))
    with open_store(f"sqlite:///{tmp_path / 'weft.db'}") as store:
        claims = []
        for files in ((), ("**",)):
            asked = single_task.check(project, about(FIRST), files=files, agent="implement")
            number = single_task.submit_task(project, store, asked)
            claims.append(get_task(store, number).files)
    assert set(claims[0]) <= set(FIRST.files)
    assert claims == [claims[0], ("**",)]


def test_the_note_is_part_of_the_check_for_programs(root: Path) -> None:
    answer = json.loads(json.dumps(plan_check.as_json(check(root, about(FIRST)))))
    assert answer["prediction"]["used"]
    assert answer["tasks"][0]["predicted"][0]["path"] in FIRST.files
