"""Submission: a plan is read, compiled and prepared once."""

from __future__ import annotations

import os
import sys
from collections import Counter
from inspect import unwrap
from pathlib import Path
from types import CodeType, FrameType

from cli.shell import make_project
from weft import plan
from weft.cli.run_preview import prepare_plan
from weft.project.project import get_project
from weft.runs.plan_check import check
from weft.runs.preparation import RunOptions, prepare
from weft.runs.submission import preview_draft, submit_draft
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
