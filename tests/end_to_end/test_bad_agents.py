"""Agents that lie, dawdle or take more than they may: each is contained, and the rest lands.

All of them are in one run, side by side with good ones; what became of each is looked at then.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from end_to_end.run_project import RunProject

pytestmark = pytest.mark.timeout(600)

PRINTED = 30_000  # bytes that the talker prints before it waits; it may print 20,000

TASKS = [
    ("says_done", "", ["answer All done."]),
    ("broke_it", "", ["write src/broke_it BROKEN", "answer All tests pass."]),
    ("thief", "", ["write src/thief x", "write src/owned stolen"]),
    ("owned", "", ["sleep 1.5", "write src/owned mine"]),
    (
        "parent",
        "",
        [
            "grandchild 654 deaf",
            "grandchild 654 deaf bare closed",
            "grandchild 654 stay",
            "write src/parent x",
        ],
    ),
    ("talker", "agent: talker", []),
    ("slow", "budget: 1s", ["hang"]),
    ("filler", "agent: filler", []),
    ("fine", "", ["write src/fine x"]),
    ("after", "depends: broke_it", ["write src/after x"]),
]


def plan() -> str:
    lines = ["## Phase 1: All", "<!-- execution: parallel -->", ""]
    for name, note, script in TASKS:
        lines.append(f"- [ ] The one called {name}")
        lines.append(f"  <!-- id: {name}; files: src/{name} -->")
        lines += [f"  <!-- {note} -->"] if note else []
        lines += [f"  - script: {one}" for one in script]
    return "\n".join(lines) + "\n"


class EndedRun:
    def __init__(self, project: RunProject, answer: dict[str, Any], small: Path) -> None:
        self.project = project
        self.small = small  # the full file system
        self.states = {one["name"]: one["state"] for one in answer["tasks"]}
        self.needs_you: list[dict[str, Any]] = answer["needs_you"]

    def assert_blocked(self, name: str, why: str) -> None:
        assert self.states[name] == "blocked"
        assert any(
            one["subject"].endswith(f"/{name}") and one["text"].startswith("needs you")
            for one in self.needs_you
        )
        assert why in self.project.reason(name)
        listing = self.project.tree_listing()
        assert f"src/{name}" not in listing


@pytest.fixture
def ended_run(tmp_path: Path) -> Iterator[EndedRun]:
    """One run of them all; it needs a person in the end."""
    small = tmp_path / "small"
    small.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(small)]
    if os.geteuid() != 0 or subprocess.call(mount, stderr=subprocess.DEVNULL):
        pytest.skip("a small file system cannot be made here")
    project = RunProject(tmp_path)
    try:
        project.settings(output=20_000, timeout_retries=1)
        project.shell("talker", f"head -c {PRINTED} /dev/zero; sleep 654")
        project.shell("filler", f"cat > /dev/null; head -c 9000000 /dev/zero > {small}/x")
        project.commit()
        project.plan.write_text(plan())
        with project.untouched():
            answer = project.run("plan.md", "--slots", "10", code=1)
        yield EndedRun(project, answer, small)
    finally:
        project.close()
        subprocess.run(["umount", small], check=True)


def nothing_is_left_of_any_of_them(ended_run: EndedRun) -> None:
    ended_run.project.assert_nothing_left()
    told = subprocess.run(["ps", "axo", "args"], capture_output=True, text=True, check=True)
    assert "sleep 654" not in told.stdout


def the_good_ones_landed(ended_run: EndedRun) -> None:
    assert (ended_run.states["fine"], ended_run.states["owned"]) == ("done", "done")
    assert ended_run.project.landed("src/fine") == "x\n"
    assert ended_run.project.weft("verify", ended_run.project.run_id()).returncode == 0


def says_done_and_changed_nothing(ended_run: EndedRun) -> None:
    ended_run.assert_blocked("says_done", "nothing has changed")
    assert ended_run.project.outcomes("says_done") == ["no_change", "no_change"]


def says_done_and_broke_the_build(ended_run: EndedRun) -> None:
    ended_run.assert_blocked("broke_it", "3 times")
    assert ended_run.project.outcomes("broke_it") == ["success"] * 3
    assert ended_run.states["after"] == "waiting"
    assert ended_run.project.outcomes("after") == []


def edits_another_tasks_file(ended_run: EndedRun) -> None:
    """What it took from another is archived, not landed; next time it claims it and waits."""
    assert ended_run.states["thief"] == "done"
    assert ended_run.project.outcomes("thief") == ["scope", "success"]
    (thief, owned) = ended_run.project.spans("thief", "owned")
    assert thief[0] >= owned[1]


def spawns_children_that_outlive_it(ended_run: EndedRun) -> None:
    assert ended_run.states["parent"] == "done"


def prints_without_end(ended_run: EndedRun) -> None:
    ended_run.assert_blocked("talker", "printed more than it may")
    printed = [
        path.stat().st_size
        for path in (ended_run.project.root / ".git" / "weft" / "attempts").rglob("stdout")
    ]
    assert PRINTED in printed
    assert max(printed) == PRINTED


def never_ends(ended_run: EndedRun) -> None:
    ended_run.assert_blocked("slow", "")
    assert ended_run.project.outcomes("slow") == ["timeout", "timeout"]


def fills_the_disk_it_was_given(ended_run: EndedRun) -> None:
    room = os.statvfs(ended_run.small)
    assert room.f_bavail == 0, "the agent must really have filled the disk"
    assert "No space left on device" in ended_run.project.weft("logs", "filler", "--stderr").stdout
    assert ended_run.states["filler"] == "blocked"
    assert not set(ended_run.project.outcomes("filler")) & {"success", None}


def the_plan_says_who_needs_a_person(ended_run: EndedRun) -> None:
    marks = {
        line.split(" called ")[1].split()[0]: line[3]
        for line in ended_run.project.plan.read_text().splitlines()
        if " called " in line
    }
    blocked = {name for name, mark in marks.items() if mark == "!"}
    assert blocked == {"says_done", "broke_it", "talker", "slow", "filler"}
    assert marks["after"] == " "


def test_bad_agents_are_contained_each_in_its_way(ended_run: EndedRun) -> None:
    nothing_is_left_of_any_of_them(ended_run)
    the_good_ones_landed(ended_run)
    says_done_and_changed_nothing(ended_run)
    says_done_and_broke_the_build(ended_run)
    edits_another_tasks_file(ended_run)
    spawns_children_that_outlive_it(ended_run)
    prints_without_end(ended_run)
    never_ends(ended_run)
    fills_the_disk_it_was_given(ended_run)
    the_plan_says_who_needs_a_person(ended_run)
