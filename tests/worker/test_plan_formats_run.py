"""Plans of every format, run by a worker that writes their marks back while people edit them."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from cli.plan_project import Project
from databases import sqlite_store
from repositories import commit_all
from wait_until import wait_until
from weft.cli.run_preview import prepare_plan
from weft.operations.submission import submit_draft
from weft.plan.plan_records import Source
from weft.project.project import get_project
from weft.runs.preparation import RunOptions
from weft.runs.wanted_projections import request_state_file


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "project", sqlite_store(tmp_path / "weft.db"))


def submit(project: Project, name: str, format: Source | None = None) -> str:
    """Submit a plan file as a run of the project, with a state file beside it."""
    place = get_project(project.root, project.environment)
    options = RunOptions(agent="implement", format=format, preflight=False)
    draft = prepare_plan(place, project.root, name, options).draft
    state = request_state_file(project.root / f"{name}.state", format)
    with place.open_store() as store:
        submitted, _ = submit_draft(place, store, replace(draft, state_file=state))
    return submitted.run


@contextmanager
def worker(project: Project) -> Iterator[None]:
    process = project.start("worker", "--slots", "4")
    try:
        yield
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 0
    finally:
        process.kill()
        process.wait()


def caught_up(project: Project) -> bool:
    return not project.rows("SELECT 1 FROM projections WHERE open")


def work(number: int) -> str:
    return f"script: write src/f{number}.txt {number}"


PLANS: dict[str, tuple[str, Callable[[str], str]]] = {
    "prd.json": (
        json.dumps(
            [
                {"id": "A", "title": "a", "description": work(1), "files": ["src/f1.txt"]},
                {"id": "B", "title": "b", "description": work(2), "files": ["src/f2.txt"]},
            ],
            indent=1,
        ),
        lambda text: re.sub(
            r'("src/f\d.txt"\n  \])',
            r'\1,\n  "passes": true,\n  "notes": "weft: landed as COMMIT"',
            text,
        ),
    ),
    "tasks.json": (
        json.dumps(
            {
                "master": {
                    "tasks": [
                        {
                            "id": 1,
                            "title": "a",
                            "status": "pending",
                            "details": work(3),
                            "subtasks": [],
                            "metadata": {"files": ["src/f3.txt"]},
                        },
                        {
                            "id": 2,
                            "title": "b",
                            "status": "pending",
                            "dependencies": [1],
                            "details": work(4),
                            "metadata": {"files": ["src/f4.txt"]},
                        },
                    ]
                }
            }
        ),
        lambda text: text.replace("pending", "done"),
    ),
    "spec-kit.md": (
        "# Tasks\n\n## Phase 1: A\n"
        f"- [ ] T001 [P] Write src/f5.txt\n  - {work(5)}\n"
        f"- [ ] T002 [P] Write src/f6.txt\n  - {work(6)}\n",
        lambda text: text.replace("[ ]", "[x]"),
    ),
    "kiro.md": (
        f"# Plan\n\n- [ ] 1. Group\n  - [ ] 1.1 Write src/f7.txt\n    - {work(7)}\n"
        "    - _Requirements: 1_\n  - [ ]* 1.2 Leave it\n",
        lambda text: text.replace("[ ] 1.1", "[x] 1.1"),
    ),
    "openspec.md": (
        f"## 1. A\n- [ ] 1.1 Write it\n  - {work(8)}\n- [x] 1.2 Done\n",
        lambda text: text.replace("[ ]", "[x]"),
    ),
    "superpowers.md": (
        "# Plan\n\n### Task 1: A\n\n**Files:**\n- Create: `src/f9.txt`\n\n"
        f"- [ ] **Step 1: Write it**\n  - {work(9)}\n- [ ] **Step 2: Look at it**\n",
        lambda text: text.replace("[ ]", "[x]"),
    ),
    "forced.md": (
        f"- [ ] 1.1 Write src/f0.txt\n  <!-- files: src/f0.txt -->\n  - {work(0)}\n"
        "  - _Requirements: 1_\n",
        lambda text: re.sub(r"\[ \](.*)", r"[x]\1 COMMIT", text),
    ),
}


def test_every_format_is_run_and_its_marks_are_written_back(project: Project) -> None:
    for name, (text, _) in PLANS.items():
        (project.root / name).write_text(text)
    commit_all(project.root, "plans")
    for name in PLANS:
        submit(project, name, Source.MARKDOWN if name == "forced.md" else None)
    with worker(project):
        wait_until(lambda: caught_up(project))
    assert {*project.states().values()} == {"done"}
    for name, (before, marked) in PLANS.items():
        text = (project.root / name).read_text()
        assert re.sub(r"\b[0-9a-f]{9}\b", "COMMIT", text) == marked(before)
        state = json.loads((project.root / f"{name}.state").read_text())
        assert state["completed_workers"] == state["total_workers"] > 0
        assert all("completed_at" in each for each in state["workers"] if "commit_sha" in each)


HELD = """\
{"tasks": [
  {"id": 1, "title": "a", "status": "deferred", "metadata": {"files": ["src/a.txt"]},
   "details": "script: write src/a.txt 1"},
  {"id": 2, "title": "b", "status": "pending", "metadata": {"files": ["src/b.txt"]},
   "details": "script: write src/b.txt 2"}
]}
"""


def test_a_status_that_a_person_edits_while_a_worker_runs_lets_the_task_go_on(
    project: Project,
) -> None:
    path = project.write(HELD, "tasks.json")
    submit(project, "tasks.json")
    with worker(project):
        wait_until(lambda: '"status": "done"' in path.read_text())
        assert '"status": "deferred"' in path.read_text()
        assert project.states() == {"1": "blocked", "2": "done"}
        path.write_text(path.read_text()[:40])  # an editor that saves in two steps
        edited = HELD.replace("deferred", "pending").replace('"a"', '"A new title"')
        beside = path.with_suffix(".new")
        beside.write_text(edited.replace('"b", "status": "pending"', '"b", "status": "done"'))
        os.replace(beside, path)
        wait_until(lambda: caught_up(project))
    assert project.states() == {"1": "done", "2": "done"}
    assert path.read_text() == edited.replace("pending", "done")
