"""Hints to the author of a plan: mistyped paths, and tasks that run one by one."""

from __future__ import annotations

from pathlib import Path

import pytest

from repositories import commit_all, make_repository
from weft import plan
from weft.plan.annotator import write_files
from weft.runs import plan_check
from weft.runs.plan_check import CheckedPlan, PlanSource


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = make_repository(tmp_path_factory.mktemp("hints") / "r")
    for path in ("src/click/core.py", "src/click/part1.py", "docs/index.md", "CHANGES.md"):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text("x\n")
    commit_all(root, "files")
    return root


def check(root: Path, text: str) -> CheckedPlan:
    with plan_check.setting(root, {}) as around:
        return plan_check.check(PlanSource(name="plan.md", data=text.encode()), around, 4)


@pytest.mark.parametrize(
    ("note", "meant"),
    [
        ("files: src/click/cors.py", "src/click/core.py"),
        ("files: src/clik/core.py", "src/click/core.py"),
        ("files: none; reads: docs/indx.md", "docs/index.md"),
        ("new: src/click/cors.py", None),
        ("files: src/click/core.py", None),
        ("files: src/click/part2.py", None),
        ("files: src/click/colours.py", None),
        ("files: src/click/cor*.py", None),
    ],
)
def test_a_mistyped_path_is_told_with_the_nearest_path_unless_it_is_marked_new(
    root: Path, note: str, meant: str | None
) -> None:
    checked = check(root, f"## Phase 1: All\n- [ ] Task 1: Do it\n  <!-- {note} -->\n")
    told = [problem for problem in checked.problems if problem.code == "no-such-path"]
    assert [f"Did you mean {meant}?" in problem.suggestion for problem in told] == (
        [True] if meant else []
    )


TASKS = "".join(f"- [ ] Task {n}: Do {n}\n  <!-- files: src/f{n} -->\n" for n in range(1, 4))


def test_tasks_that_run_one_by_one_are_told_with_the_annotation_that_makes_them_parallel(
    root: Path,
) -> None:
    note = check(root, f"## Phase 1: All\n{TASKS}").parallel_note
    assert note == (
        "Tasks run one by one, about 15 min; with `<!-- execution: parallel -->` under "
        "'Phase 1: All' about 5 min."
    )
    assert "a heading `## Phase 1: …`" in check(root, TASKS).parallel_note
    for line in ("execution: parallel", "execution: sequential"):
        assert check(root, f"## Phase 1: All\n<!-- {line} -->\n{TASKS}").parallel_note == ""


def test_a_list_without_files_is_told_that_it_needs_them(root: Path) -> None:
    note = check(root, "- [ ] Wash the car\n- [ ] Feed the cat\n").parallel_note
    assert "and `<!-- files: … -->` under each task about 5 min" in note
    assert "`weft plan annotate plan.md` proposes both" in note


def test_a_story_and_a_part_without_files_of_its_own_do_not_run_alone() -> None:
    text = (
        "- [ ] Task 1: A story\n"
        "- [ ] Part\n  <!-- part-of: task1; files: a.py -->\n"
        "- [ ] Task 3: Another\n  <!-- files: b.py, c.py -->\n"
        "- [ ] Part\n  <!-- part-of: task3 -->\n"
    )
    assert plan.read("plan.md", text.encode()).problems == ()


def test_a_spec_kit_task_names_a_document_without_code_marks() -> None:
    text = "# Tasks\n\n- [ ] T001 [P] Describe the option in CHANGES.md\n"
    reading = plan.read("tasks.md", text.encode())
    assert reading.plan.tasks[0].files == ("CHANGES.md",)
    assert reading.problems == ()


def test_a_predicted_path_with_marks_of_a_comment_is_not_written_into_a_plan() -> None:
    data = b"- [ ] Tidy up\n"
    whole = plan.read("plan.md", data).plan
    written = write_files(whole, data, {"1.1": ("a --> b.py", 'a"b.py', "a;b.py", "c.py")})
    [task] = plan.read("plan.md", written).plan.tasks
    assert task.files == ("a;b.py", "c.py")
