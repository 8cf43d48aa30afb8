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

from end_to_end.run_project import Yard

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


class Aftermath:
    def __init__(self, yard: Yard, answer: dict[str, Any], small: Path) -> None:
        self.yard = yard
        self.small = small  # the full file system
        self.states = {one["name"]: one["state"] for one in answer["tasks"]}
        self.needs_you: list[dict[str, Any]] = answer["needs_you"]

    def assert_blocked(self, name: str, why: str) -> None:
        assert self.states[name] == "blocked"
        assert any(
            one["subject"].endswith(f"/{name}") and one["text"].startswith("needs you")
            for one in self.needs_you
        )
        assert why in self.yard.reason(name)
        listing = self.yard.tree_listing()
        assert f"src/{name}" not in listing


@pytest.fixture
def aftermath(tmp_path: Path) -> Iterator[Aftermath]:
    """One run of them all; it needs a person in the end."""
    small = tmp_path / "small"
    small.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(small)]
    if os.geteuid() != 0 or subprocess.call(mount, stderr=subprocess.DEVNULL):
        pytest.skip("a small file system cannot be made here")
    yard = Yard(tmp_path)
    try:
        yard.settings(output=20_000, timeout_retries=1)
        yard.shell("talker", f"head -c {PRINTED} /dev/zero; sleep 654")
        yard.shell("filler", f"cat > /dev/null; head -c 9000000 /dev/zero > {small}/x")
        yard.commit()
        yard.plan.write_text(plan())
        with yard.untouched():
            answer = yard.run("plan.md", "--slots", "10", code=1)
        yield Aftermath(yard, answer, small)
    finally:
        yard.close()
        subprocess.run(["umount", small], check=True)


def nothing_is_left_of_any_of_them(aftermath: Aftermath) -> None:
    aftermath.yard.assert_nothing_left()
    told = subprocess.run(["ps", "axo", "args"], capture_output=True, text=True, check=True)
    assert "sleep 654" not in told.stdout


def the_good_ones_landed(aftermath: Aftermath) -> None:
    assert (aftermath.states["fine"], aftermath.states["owned"]) == ("done", "done")
    assert aftermath.yard.landed("src/fine") == "x\n"
    assert aftermath.yard.weft("verify", aftermath.yard.run_id()).returncode == 0


def says_done_and_changed_nothing(aftermath: Aftermath) -> None:
    aftermath.assert_blocked("says_done", "nothing has changed")
    assert aftermath.yard.outcomes("says_done") == ["no_change", "no_change"]


def says_done_and_broke_the_build(aftermath: Aftermath) -> None:
    aftermath.assert_blocked("broke_it", "3 times")
    assert aftermath.yard.outcomes("broke_it") == ["success"] * 3
    assert aftermath.states["after"] == "waiting"
    assert aftermath.yard.outcomes("after") == []


def edits_another_tasks_file(aftermath: Aftermath) -> None:
    """What it took from another is archived, not landed; next time it claims it and waits."""
    assert aftermath.states["thief"] == "done"
    assert aftermath.yard.outcomes("thief") == ["scope", "success"]
    (thief, owned) = aftermath.yard.spans("thief", "owned")
    assert thief[0] >= owned[1]


def spawns_children_that_outlive_it(aftermath: Aftermath) -> None:
    assert aftermath.states["parent"] == "done"


def prints_without_end(aftermath: Aftermath) -> None:
    aftermath.assert_blocked("talker", "printed more than it may")
    printed = [
        path.stat().st_size
        for path in (aftermath.yard.root / ".git" / "weft" / "attempts").rglob("stdout")
    ]
    assert PRINTED in printed
    assert max(printed) == PRINTED


def never_ends(aftermath: Aftermath) -> None:
    aftermath.assert_blocked("slow", "")
    assert aftermath.yard.outcomes("slow") == ["timeout", "timeout"]


def fills_the_disk_it_was_given(aftermath: Aftermath) -> None:
    room = os.statvfs(aftermath.small)
    assert room.f_bavail == 0, "the agent must really have filled the disk"
    assert "No space left on device" in aftermath.yard.weft("logs", "filler", "--stderr").stdout
    assert aftermath.states["filler"] == "blocked"
    assert not set(aftermath.yard.outcomes("filler")) & {"success", None}


def the_plan_says_who_needs_a_person(aftermath: Aftermath) -> None:
    marks = {
        line.split(" called ")[1].split()[0]: line[3]
        for line in aftermath.yard.plan.read_text().splitlines()
        if " called " in line
    }
    blocked = {name for name, mark in marks.items() if mark == "!"}
    assert blocked == {"says_done", "broke_it", "talker", "slow", "filler"}
    assert marks["after"] == " "


def test_bad_agents_are_contained_each_in_its_way(aftermath: Aftermath) -> None:
    nothing_is_left_of_any_of_them(aftermath)
    the_good_ones_landed(aftermath)
    says_done_and_changed_nothing(aftermath)
    says_done_and_broke_the_build(aftermath)
    edits_another_tasks_file(aftermath)
    spawns_children_that_outlive_it(aftermath)
    prints_without_end(aftermath)
    never_ends(aftermath)
    fills_the_disk_it_was_given(aftermath)
    the_plan_says_who_needs_a_person(aftermath)
