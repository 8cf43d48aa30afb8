"""The verification lists of the earlier designs, from end to end."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from run.watcher import Watcher
from run.yard import Yard, overlap

pytestmark = pytest.mark.timeout(240)


def story(name: str, *script: str, files: list[str], needs: tuple[str, ...] = ()) -> dict[str, Any]:
    lines = "\n".join(f"script: {one}" for one in script)
    return {
        "id": name,
        "title": f"Story {name}",
        "description": lines,
        "files": files,
        "depends_on": list(needs),
    }


def write_prd(yard: Yard, *stories: dict[str, Any]) -> None:
    yard.write(**{"prd.json": json.dumps({"title": "Stories", "stories": stories})})


def test_003_1_and_4_independent_stories_run_together_and_no_file_has_two_workers(
    either: Yard,
) -> None:
    """And 003-2: stories that share a file run one after the other."""
    write_prd(
        either,
        story("A", "sleep 1", "write src/a x", files=["src/a"]),
        story("B", "sleep 1", "write src/b x", files=["src/b"]),
        story("C", "sleep 0.3", "append src/a y", files=["src/a"]),
    )
    with either.untouched(), Watcher(either) as watcher:
        either.run("prd.json", "--slots", "3")
    watcher.assert_saw_nothing()
    a, b, c = either.spans("A", "B", "C")
    assert overlap([a, b])
    assert not overlap([a, c])
    assert either.landed("src/a") == "x\ny\n"
    either.assert_landed_once("A", "B", "C")
    either.assert_nothing_left()


def test_003_3_a_merge_conflict_is_handled_by_making_the_later_one_again(yard: Yard) -> None:
    """Both touch a line of a file that neither declared."""
    yard.write(**{"src/common": "start\n"})
    yard.commit()
    write_prd(
        yard,
        story("A", "write src/a x", "append src/common A", files=["src/a"]),
        story("B", "write src/b x", "sleep 0.8", "append src/common B", files=["src/b"]),
    )
    with yard.untouched():
        yard.run("prd.json", "--slots", "2")
    assert sorted(yard.landed("src/common").split()) == ["A", "B", "start"]
    made = [yard.outcomes(name) for name in ("A", "B")]
    assert sum(map(len, made)) == 3, made
    yard.assert_landed_once("A", "B")
    yard.assert_nothing_left()


def test_003_5_subtasks_of_a_story_run_together_and_land_as_one(either: Yard) -> None:
    parts = [
        {
            "id": f"S.{letter}",
            "description": f"Part\nscript: sleep 0.8\nscript: write src/{letter} x",
            "files": [f"src/{letter}"],
        }
        for letter in "abc"
    ]
    write_prd(either, {"id": "S", "title": "A story", "subtasks": parts})
    with either.untouched():
        either.run("prd.json", "--slots", "3")
    assert overlap(either.spans("S.a", "S.b", "S.c"))
    assert len(either.rows("SELECT * FROM landings")) == 1
    either.assert_landed_once("S.a", "S.b", "S.c")
    either.assert_nothing_left()


def test_003_6_stories_that_all_share_a_file_run_one_by_one_and_all_land(yard: Yard) -> None:
    names = ("A", "B", "C")
    write_prd(
        yard,
        *(story(name, "sleep 0.2", f"append src/one {name}", files=["src/one"]) for name in names),
    )
    with Watcher(yard) as watcher:
        yard.run("prd.json", "--slots", "3")
    assert watcher.most[f"run:{yard.run_id()}/agents"] == 1
    assert yard.landed("src/one").split() == ["A", "B", "C"]
    yard.assert_landed_once(*names)


def test_003_7_four_independent_stories_take_less_than_twice_as_long_as_one(yard: Yard) -> None:
    """By how long agents ran side by side; `four_stories_ratio` measures the whole command."""
    names = ("A", "B", "C", "D")
    write_prd(
        yard,
        *(story(name, "sleep 2", f"write src/{name} x", files=[f"src/{name}"]) for name in names),
    )
    yard.run("prd.json", "--slots", "4")
    assert overlap(yard.spans(*names))


TRACK = """# User Authentication Feature

## Phase 1: Core Auth Setup
<!-- execution: parallel -->

- [ ] Task 1: Create OAuth provider module
  <!-- files: src/auth/oauth.ts, src/auth/oauth.test.ts -->
  - script: sleep 0.5
  - script: write src/auth/oauth.ts x

- [ ] Task 2: Create session management module
  <!-- files: src/auth/session.ts, src/auth/session.test.ts -->
  - script: sleep 0.5
  - script: write src/auth/session.ts x

- [ ] Task 3: Create auth config module
  <!-- files: src/config/auth.ts -->
  - script: write src/config/auth.ts x

## Phase 2: UI
<!-- execution: parallel -->
<!-- depends: -->

- [ ] Task 1: Create login page
  <!-- files: src/pages/login.tsx, src/pages/login.test.tsx -->
  - script: sleep 0.5
  - script: write src/pages/login.tsx x

- [ ] Task 2: Create profile page
  <!-- files: src/pages/profile.tsx, src/pages/profile.test.tsx -->
  - script: write src/pages/profile.tsx x

## Phase 3: Integration
<!-- execution: sequential -->
<!-- depends: phase1, phase2 -->

- [ ] Task 1: Integrate OAuth with sessions
  - script: append src/auth/oauth.ts y

- [ ] Task 2: Create login route handler
  - script: write src/routes/login.ts x

- [ ] Task 3: Create logout route handler
  - script: write src/routes/logout.ts x
"""


def test_002_the_example_track_runs_as_drawn_and_its_file_says_so(yard: Yard) -> None:
    yard.plan.write_text(TRACK)
    with yard.untouched():
        yard.run("plan.md", "--slots", "5")
    names = ["1.1", "1.2", "1.3", "2.1", "2.2", "3.1", "3.2", "3.3"]
    first = yard.spans(*names[:5])
    assert overlap(yard.spans("1.1", "1.2", "2.1"))
    third = yard.spans(*names[5:])
    assert max(end for _, end in first) <= min(begin for begin, _ in third)
    assert third == sorted(third)
    assert not any(overlap([one, other]) for one, other in itertools.pairwise(third))
    after = yard.plan.read_text()
    assert after.count("[x]") == 8
    assert after.count("[checkpoint: ") == 3
    yard.assert_landed_once(*names)


def test_002_an_error_blocks_what_depends_on_it_and_is_asked_about(yard: Yard) -> None:
    """Worker error: kept, dependents wait, the user is asked; retried, all of it lands."""
    yard.plan.write_text(
        "## Phase 1: All\n<!-- execution: parallel -->\n\n"
        "- [ ] Task 1: Broken\n  <!-- files: src/a -->\n"
        "  - script: attempt 1: fail other it went wrong\n  - script: write src/a x\n"
        "- [ ] Task 2: After\n  <!-- files: src/b; depends: task1 -->\n"
        "  - script: write src/b x\n"
        "- [ ] Task 3: Beside\n  <!-- files: src/c -->\n  - script: write src/c x\n"
    )
    answer = yard.run("plan.md", code=1)
    assert {one["name"]: one["state"] for one in answer["tasks"]} == {
        "1.1": "blocked",
        "1.2": "waiting",
        "1.3": "done",
    }
    [question] = answer["needs_you"]
    assert "it went wrong" in question
    assert "weft retry" in question
    [row] = yard.rows("SELECT id FROM tasks WHERE name = '1.1'")
    assert yard.weft("retry", str(row["id"])).returncode == 0
    yard.run("--resume")
    yard.assert_landed_once("1.1", "1.2", "1.3")
    assert yard.plan.read_text().count("[x]") == 3


def test_002_a_file_outside_the_list_is_added_to_it_where_nobody_holds_it(yard: Yard) -> None:
    yard.plan.write_text(
        "## Phase 1: All\n\n- [ ] Task 1: More than it said\n  <!-- files: src/a -->\n"
        "  - script: write src/a x\n  - script: write src/b x\n"
    )
    yard.run("plan.md")
    assert yard.landed("src/b") == "x\n"
    [event] = yard.events("claims_extended")
    assert event["data"]["files"] == ["src/b"]


def test_a_rate_limited_task_goes_on_when_its_time_has_come(yard: Yard) -> None:
    """Nobody rings at that moment: whoever waits knows when it is."""
    yard.settings(heartbeat=15, lease=60)
    yard.commit()
    yard.plan.write_text(
        "## Phase 1: All\n\n- [ ] Task 1: Limited\n  <!-- files: src/a -->\n"
        "  - script: limit for 0.5\n  - script: write src/a x\n"
    )
    yard.run("plan.md")
    first, second = yard.rows("SELECT started, ended FROM attempts ORDER BY number")
    assert float(second["started"]) - float(first["ended"]) < 4.0  # a look just so comes after 5
    yard.assert_landed_once("1.1")
