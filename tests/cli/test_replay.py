"""`weft recordings` on both stores, as a user calls them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.plan_project import Project, plan

SECRET = "a-key-that-is-nobodys-business-77"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return make_project(tmp_path, f"sqlite:///{tmp_path / 'weft.db'}")


@pytest.fixture
def either(tmp_path: Path, url: str) -> Project:
    return make_project(tmp_path, url)


def make_project(place: Path, url: str) -> Project:
    made = Project(place / "project", url)
    made.settings('[gate]\nrun = ["sh", "-c", "! grep -q bad one"]\n')
    return made


def run_plan(project: Project) -> str:
    """A run with a red check, a rate limit and tasks that need each other."""
    project.write(
        plan(
            "Write one: one: attempt 1: write one bad; attempt 2: write one good; say wrote one",
            "Write two: two: write two half; attempt 1: limit for 0.1; append two rest",
        )
    )
    done = project.weft("run", "plan.md", "--no-tty", MY_API_KEY=SECRET)
    assert done.returncode == 0, done.stdout + done.stderr
    return project.run_id()


def test_a_run_is_recorded_without_secrets_and_replayed_to_the_same_tree(
    either: Project,
) -> None:
    either.agent("implement", front="env: [MY_API_KEY]\n")
    run = run_plan(either)
    told = either.answer("recordings", "save", run, "-o", "out", "--json")
    names = sorted(path.name for path in (either.root / "out").iterdir())
    assert told["files"] == names == [f"1.{n}.{m}.recording.json" for n in (1, 2) for m in (1, 2)]
    first = json.loads((either.root / "out" / names[0]).read_text())
    assert first["version"] == 1
    assert first["outcome"] == "success"
    assert "+bad" in first["patch"]
    played = either.answer("recordings", "play", run, "--from", "out", "--fast", "--json")
    assert played["same"] is True
    assert played["original"] == run
    assert either.content("one", f"weft/{played['run']}") == "good\n"
    assert either.content("two", f"weft/{played['run']}") == "half\nrest\n"
    outcomes = [
        row["outcome"]
        for row in either.rows(
            "SELECT a.outcome FROM attempts a JOIN tasks t ON t.id = a.task "
            "WHERE t.run = ? ORDER BY t.id, a.number",
            played["run"],
        )
    ]
    assert outcomes == ["success", "success", "rate_limit", "success"]


def test_a_secret_that_an_agent_prints_is_in_no_recording(project: Project) -> None:
    project.agent("implement", front="env: [MY_API_KEY]\n")
    project.write(
        plan(f"Leak: one: say {SECRET}; print 2 {SECRET}; write one good; answer {SECRET}")
    )
    done = project.weft("run", "plan.md", "--no-tty", MY_API_KEY=SECRET)
    assert done.returncode == 0, done.stdout + done.stderr
    project.weft("recordings", "save", project.run_id(), "-o", "out", MY_API_KEY=SECRET)
    texts = [path.read_text() for path in (project.root / "out").iterdir()]
    assert texts
    assert not [text for text in texts if SECRET in text]


def test_a_replay_without_a_fitting_recording_needs_a_person(project: Project) -> None:
    run = run_plan(project)
    assert project.weft("recordings", "save", run, "-o", "out").returncode == 0
    for path in (project.root / "out").iterdir():
        fields = json.loads(path.read_text())
        path.write_text(json.dumps({**fields, "prompt": "Other.", "digest": "sha256:0"}))
    played = project.weft("recordings", "play", run, "--from", "out", "--fast")
    assert played.returncode == 1
    assert "No recording fits attempt 1 of task 1.1" in played.stdout


def test_a_run_that_was_never_here_cannot_be_recorded(project: Project) -> None:
    refused = project.weft("recordings", "save", "nothing", "-o", "out")
    assert refused.returncode != 0
    assert "nothing" in refused.stderr
    assert not (project.root / "out").exists()


def test_a_run_with_a_team_is_replayed(project: Project) -> None:
    project.write(
        "- [ ] Task 1: One\n  <!-- files: one; team: best-of 2 -->\n  script: write one good\n"
    )
    done = project.weft("run", "plan.md", "--no-tty")
    assert done.returncode == 0, done.stdout + done.stderr
    played = project.answer("recordings", "play", project.run_id(), "--fast", "--json")
    assert played["same"] is True
    assert project.content("one", f"weft/{played['run']}") == "good\n"
