"""A whole run of tasks that name no files, in a repository whose history predicts them."""

from __future__ import annotations

from pathlib import Path

from bench.planted_history import CHANGELOG, plant_commits, plant_topics, write_repository
from cli.plan_project import Project

TOPICS = plant_topics(30)
RIVALS, ALONE = TOPICS[8], TOPICS[9]


def task(words: str, *script: str) -> str:
    return "\n".join([f"- [ ] {words}", *(f"  - script: {line}" for line in script)])


def test_tasks_without_files_run_beside_each_other_and_land_what_they_change(
    tmp_path: Path, url: str
) -> None:
    """All touch the changelog, which no task claims; two want the same files and take turns."""
    project = Project(tmp_path / "project", url)
    write_repository(project.root, list(plant_commits(240, TOPICS)), first=1)
    text = f"Rework {' '.join(RIVALS.words[1:])}"
    plan = [
        "## Phase 1: All",
        "<!-- execution: parallel -->",
        task(f"{text} first", f"append {RIVALS.files[0]} first", f"append {CHANGELOG} first"),
        task(f"{text} second", f"append {RIVALS.files[0]} second"),
        task(f"Rework {' '.join(ALONE.words[1:])}", f"append {ALONE.files[0]} third"),
    ]
    project.write("\n".join(plan) + "\n")
    done = project.weft("run", "plan.md")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "The files of 3 tasks are predicted" in done.stdout
    assert set(project.states().values()) == {"done"}
    assert project.content(RIVALS.files[0]).split()[-2:] == ["first", "second"]
    assert project.content(ALONE.files[0]).endswith("third\n")
    assert project.content(CHANGELOG).endswith("first\n")
    assert project.rows("SELECT * FROM claims") == []
    kept = project.rows("SELECT changed, predicted FROM attempt_files ORDER BY task, attempt")
    assert all(row["predicted"] != "[]" for row in kept)
    assert len(kept) == 3  # the second waited for the first's claim, and was not done twice
    shown = project.weft("why", "1.1").stdout
    assert f"may touch {CHANGELOG}" in shown
    assert "files predicted for 1.1, 1.2 and 1.3" in project.weft("report").stdout
    assert project.answer("plan", "predict", "--score", "--json")["score"]["attempts"]["cases"] == 3
