"""Teams: several entrants work on a task, and exactly one candidate lands."""

from __future__ import annotations

import pytest

from end_to_end.run_project import RunProject
from repositories import git

pytestmark = pytest.mark.timeout(120)


def plan(team: str, *script: str) -> str:
    lines = ["## Phase 1: All", "", "- [ ] Do it", f"  <!-- id: it; files: src/**; {team} -->"]
    return "\n".join([*lines, *(f"  - script: {line}" for line in script)]) + "\n"


def landed(project: RunProject, path: str) -> str:
    return git(project.root, "show", f"weft/{project.run_id()}:{path}").strip()


def test_the_green_candidate_of_a_team_lands(project: RunProject) -> None:
    project.agent("good", text="script: write src/it fine\\n")
    project.agent("bad", text="script: write src/it BROKEN\\n")
    project.commit()
    project.plan.write_text(plan("team: bad, good"))
    project.run("plan.md")
    assert landed(project, "src/it") == "fine"
    assert project.states() == {"it": "done", "it/1": "failed", "it/2": "done"}
