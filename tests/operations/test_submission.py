"""Submission: a plan is read, compiled and prepared once."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable
from inspect import unwrap
from pathlib import Path
from types import CodeType, FrameType

from cli.shell import make_project
from store_helpers import hire
from weft import plan
from weft.admission.capacity import list_labels
from weft.cli.run_preview import prepare_plan
from weft.operations.submission import preview_draft, submit_draft
from weft.plan.plan_prose import LONGEST
from weft.project.project import get_project
from weft.runs.plan_check import PlanSource, check, setting_of
from weft.runs.preparation import RunOptions, prepare
from weft.store.runs import get_settings
from weft.store.tasks import list_run

PLAN = """## Phase 1: All
- [ ] Task 1: Write
  <!-- files: a.txt -->
- [ ] Task 2: Write more
  <!-- files: b.txt -->
"""


class CallCounter:
    """Counts the calls of functions while it is active."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self._names: dict[CodeType, str] = {
            unwrap(function).__code__: function.__name__
            for function in (plan.read, plan.compile, check, prepare)
        }

    def __enter__(self) -> CallCounter:
        sys.setprofile(self._count)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _count(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code in self._names:
            self.calls[self._names[frame.f_code]] += 1


HUGE = "Prose about all of it.\n" * 2000


def test_prose_and_specification_go_to_the_run_and_are_bounded(tmp_path: Path) -> None:
    root = make_project(tmp_path / "project")
    text = f"# Title\nFirst.\n<!-- hidden -->\n## Goals\n{HUGE}\n" + PLAN.replace(
        ": All\n", ": All\nOf this phase.\n"
    )
    (root / "plan.md").write_text(text)
    (root / "spec.md").write_text(HUGE)
    project = get_project(root, os.environ)
    with project.open_store() as store:
        ahead = prepare_plan(project, root, "plan.md", RunOptions(agent="try"))
        submitted, _ = submit_draft(project, store, ahead.draft)
        prose = get_settings(store, submitted.run).prose
        tasks = list_run(store, submitted.run)
    assert prose[""].startswith("First.\n\n## Goals\nProse")
    assert prose[""].endswith("of it.\n[…]")
    assert len(prose[""]) <= LONGEST + 4
    assert prose["All"] == "Of this phase."
    assert all(3900 < len(task.request.spec) < 4010 for task in tasks)


def test_a_specification_that_is_no_file_of_the_repository_is_not_read(tmp_path: Path) -> None:
    root = make_project(tmp_path / "project")
    (root / "plan.md").write_text(PLAN)
    project = get_project(root, os.environ)
    secret = tmp_path / "secret"
    secret.write_text("a secret")
    spec = root / "spec.md"
    kinds: list[Callable[[], None]] = [
        lambda: spec.symlink_to(secret),
        lambda: os.mkfifo(spec),
        spec.mkdir,
        lambda: spec.symlink_to(spec),
    ]
    for make in kinds:
        make()
        draft = prepare_plan(project, root, "plan.md", RunOptions(agent="try")).draft
        assert draft.upload.spec == ""
        spec.rmdir() if spec.is_dir() else spec.unlink()


ONCE = {"read": 1, "compile": 1, "check": 1, "prepare": 1}


def test_a_submitted_plan_is_read_compiled_and_prepared_once(tmp_path: Path) -> None:
    root = make_project(tmp_path / "project")
    (root / "plan.md").write_text(PLAN)
    project = get_project(root, os.environ)
    with CallCounter() as counter, project.open_store() as store:
        ahead = prepare_plan(project, root, "plan.md", RunOptions(agent="try"))
        submitted, preview = submit_draft(project, store, ahead.draft)
    assert counter.calls == ONCE
    assert preview.agents[0].agent == "try"
    with project.open_store() as store:
        names = {task.name: task.id for task in list_run(store, submitted.run)}
    assert names == submitted.tasks


def test_a_preview_reads_the_plan_once_and_makes_no_store(tmp_path: Path) -> None:
    root = make_project(tmp_path / "project")
    (root / "plan.md").write_text(PLAN)
    project = get_project(root, os.environ)
    with CallCounter() as counter:
        ahead = prepare_plan(project, root, "plan.md", RunOptions(agent="try"))
        preview = preview_draft(project, ahead.draft)
    assert counter.calls == ONCE
    assert preview.pipelines[0].tasks == 2
    assert not project.has_store


def test_a_task_asks_for_its_own_labels_and_those_of_its_agent(tmp_path: Path) -> None:
    root = make_project(tmp_path / "project")
    agent = root / ".weft/agents/try.md"
    agent.write_text(agent.read_text().replace("---\n", "---\nneeds_labels: arm64\n", 1))
    (root / "plan.md").write_text(PLAN.replace("files: a.txt", "files: a.txt; needs_labels: gpu"))
    project = get_project(root, os.environ)
    with project.open_store() as store:
        ahead = prepare_plan(project, root, "plan.md", RunOptions(agent="try"))
        submitted, _ = submit_draft(project, store, ahead.draft)
        first, second = list_run(store, submitted.run)
    assert list_labels(first.demand) == {"gpu", "arm64"}
    assert first.request.needs_labels == ("gpu",)
    assert list_labels(second.demand) == {"arm64"}


def test_a_forecast_names_the_labels_that_no_present_worker_has(tmp_path: Path) -> None:
    root = make_project(tmp_path / "project")
    project = get_project(root, os.environ)
    plan_text = PLAN.replace("files: a.txt", "files: a.txt; needs_labels: gpu")
    source = PlanSource(name="plan.md", data=plan_text.encode())
    with project.open_store() as store:
        guesses = check(source, setting_of(project, store)).guesses
        assert "a worker with the label gpu" in guesses
        hire(store, labels=("gpu",), slots=1)
        checked = check(source, setting_of(project, store))
    assert "a worker with the label gpu" not in checked.guesses
    assert checked.work.rooms == {frozenset({"gpu"}): 1}
