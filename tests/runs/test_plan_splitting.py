"""Advice on splitting the tasks of a plan: declared and predicted files, records of attempts."""

from __future__ import annotations

from dataclasses import replace as replace_fields
from pathlib import Path

import pytest
from msgspec.structs import replace

from repositories import commit_all, make_repository
from weft.model import PredictedFile
from weft.plan.plan_records import PlanTask
from weft.runs import plan_check
from weft.runs.plan_check import CheckedPlan
from weft.runs.plan_splitting import SplitTask, advise_plan

PLAN = b"""\
- [ ] Task 1: Named
  <!-- files: api/, ui/*.txt -->
- [ ] Task 2: Predicted
- [ ] Task 3: Unknown
- [ ] Task 4: A story
  <!-- files: api/, ui/ -->
- [ ] Part
  <!-- id: part; part-of: task4; files: api/ -->
- [x] Task 5: Done
  <!-- files: api/, ui/ -->
"""
FILES = tuple(f"{part}/{number}.txt" for part in ("api", "ui") for number in range(3))


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = make_repository(tmp_path_factory.mktemp("split") / "project")
    for path in FILES:
        (root / path).parent.mkdir(exist_ok=True)
        (root / path).write_text("x")
    commit_all(root, "files")
    return root


def with_prediction(checked: CheckedPlan, task: str) -> CheckedPlan:
    """Return the plan with predicted files for a task, of which the hub is not claimed."""

    def change(each: PlanTask) -> PlanTask:
        if each.id != task:
            return each
        files = [_predicted(path, claimed=True) for path in FILES]
        return replace(each, predicted=(*files, _predicted("CHANGELOG", claimed=False)))

    whole = checked.compiled.plan
    tasks = tuple(change(each) for each in whole.tasks)
    compiled = replace(checked.compiled, plan=replace(whole, tasks=tasks))
    return replace_fields(checked, compiled=compiled)


def _predicted(path: str, *, claimed: bool) -> PredictedFile:
    return PredictedFile(
        path=path, probability=0.9, reason="", clues={}, may_touch=not claimed, claimed=claimed
    )


def test_each_open_task_gets_advice_from_its_declared_or_predicted_files(root: Path) -> None:
    with plan_check.setting(root, {"PATH": "/usr/bin:/bin"}) as around:
        source = plan_check.PlanSource(name="plan.md", data=PLAN)
        checked = with_prediction(plan_check.check(source, around), "1.2")
        splits = {split.task.id: split for split in advise_plan(checked, around)}
        [only] = advise_plan(checked, around, only="1.2")
    assert list(splits) == ["1.1", "1.2", "1.3", "1.4"]
    assert splits["1.1"].files == splits["1.2"].files == FILES
    assert splits["1.1"].advice.pays
    assert parts_of(splits["1.2"]) == parts_of(only) == [set(FILES[:3]), set(FILES[3:])]
    assert splits["1.1"].is_guess
    assert splits["1.3"].advice.reason == "its files are not known"
    assert splits["1.4"].advice.reason == "it is split already"


def parts_of(split: SplitTask) -> list[set[str]]:
    return [set(part.files) for part in split.advice.parts]
