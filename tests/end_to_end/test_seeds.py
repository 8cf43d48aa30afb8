"""The verification lists of the earlier designs, from end to end."""

from __future__ import annotations

import itertools
import json
import signal
import time
from typing import Any

import pytest

from databases import postgres_later
from end_to_end.run_observer import ENOUGH, Watcher
from end_to_end.run_project import RunProject, overlap
from repositories import git
from wait_until import PATIENCE, wait_until
from weft.errors import AtCapacity
from weft.store import open_store
from weft.store.members import assign, offer, reject
from weft.store.workers import list_workers

pytestmark = pytest.mark.timeout(600)


def story(name: str, *script: str, files: list[str], needs: tuple[str, ...] = ()) -> dict[str, Any]:
    lines = "\n".join(f"script: {one}" for one in script)
    return {
        "id": name,
        "title": f"Story {name}",
        "description": lines,
        "files": files,
        "depends_on": list(needs),
    }


def write_prd(project: RunProject, *stories: dict[str, Any]) -> None:
    project.write(**{"prd.json": json.dumps({"title": "Stories", "stories": stories})})


@pytest.mark.each_store
def test_003_1_and_4_independent_stories_run_together_and_no_file_has_two_workers(
    either: RunProject,
) -> None:
    """And 003-2: stories that share a file run one after the other."""
    go = either.root.parent / "go"
    write_prd(
        either,
        story("A", f"wait {go}", "write src/a x", files=["src/a"]),
        story("B", f"wait {go}", "write src/b x", files=["src/b"]),
        story("C", "append src/a y", files=["src/a"]),
    )
    with either.untouched(), Watcher(either, go=go, seen=2) as watcher:
        either.run("prd.json", "--slots", "3")
    watcher.assert_saw_nothing()
    a, b, c = either.spans("A", "B", "C")
    assert overlap([a, b])
    assert not overlap([a, c])
    assert either.landed("src/a") == "x\ny\n"
    either.assert_landed_once("A", "B", "C")
    either.assert_nothing_left()


@postgres_later
def test_003_3_a_merge_conflict_is_handled_by_making_the_later_one_again(
    either: RunProject,
) -> None:
    """Both touch a line of a file that neither declared."""
    either.write(**{"src/common": "start\n"})
    either.commit()
    write_prd(
        either,
        story("A", "write src/a x", "append src/common A", files=["src/a"]),
        story("B", "write src/b x", "sleep 0.8", "append src/common B", files=["src/b"]),
    )
    with either.untouched():
        either.run("prd.json", "--slots", "2")
    assert sorted(either.landed("src/common").split()) == ["A", "B", "start"]
    made = [either.outcomes(name) for name in ("A", "B")]
    assert sum(map(len, made)) == 3, made
    either.assert_landed_once("A", "B")
    either.assert_nothing_left()


def test_003_5_subtasks_of_a_story_run_together_and_land_as_one(either: RunProject) -> None:
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


@postgres_later
def test_003_6_stories_that_all_share_a_file_run_one_by_one_and_all_land(
    either: RunProject,
) -> None:
    names = ("A", "B", "C")
    go = either.root.parent / "go"
    write_prd(
        either,
        *(story(name, f"wait {go}", f"append src/one {name}", files=["src/one"]) for name in names),
    )
    with Watcher(either, go=go) as watcher:
        either.run("prd.json", "--slots", "3")
    assert watcher.most[f"run:{either.run_id()}/agents"] == 1
    assert either.landed("src/one").split() == ["A", "B", "C"]
    either.assert_landed_once(*names)


@postgres_later
def test_003_7_four_independent_stories_take_less_than_twice_as_long_as_one(
    either: RunProject,
) -> None:
    """By how long agents ran side by side; `four_stories_ratio` measures the whole command."""
    names = ("A", "B", "C", "D")
    write_prd(
        either,
        *(story(name, "sleep 2", f"write src/{name} x", files=[f"src/{name}"]) for name in names),
    )
    either.run("prd.json", "--slots", "4")
    assert overlap(either.spans(*names))


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


@postgres_later
def test_002_the_example_track_runs_as_drawn_and_its_file_says_so(either: RunProject) -> None:
    either.plan.write_text(TRACK)
    with either.untouched():
        either.run("plan.md", "--slots", "5")
    names = ["1.1", "1.2", "1.3", "2.1", "2.2", "3.1", "3.2", "3.3"]
    first = either.spans(*names[:5])
    assert overlap(either.spans("1.1", "1.2", "2.1"))
    third = either.spans(*names[5:])
    assert max(end for _, end in first) <= min(begin for begin, _ in third)
    assert third == sorted(third)
    assert not any(overlap([one, other]) for one, other in itertools.pairwise(third))
    after = either.plan.read_text()
    assert after.count("[x]") == 8
    assert after.count("[checkpoint: ") == 3
    either.assert_landed_once(*names)


@postgres_later
def test_002_an_error_blocks_what_depends_on_it_and_is_asked_about(either: RunProject) -> None:
    """Worker error: kept, dependents wait, the user is asked; retried, all of it lands."""
    either.plan.write_text(
        "## Phase 1: All\n<!-- execution: parallel -->\n\n"
        "- [ ] Task 1: Broken\n  <!-- files: src/a -->\n"
        "  - script: attempt 1: fail other it went wrong\n  - script: write src/a x\n"
        "- [ ] Task 2: After\n  <!-- files: src/b; depends: task1 -->\n"
        "  - script: write src/b x\n"
        "- [ ] Task 3: Beside\n  <!-- files: src/c -->\n  - script: write src/c x\n"
    )
    answer = either.run("plan.md", code=1)
    assert {one["name"]: one["state"] for one in answer["tasks"]} == {
        "1.1": "blocked",
        "1.2": "waiting",
        "1.3": "done",
    }
    [question] = answer["needs_you"]
    assert "it went wrong" in question["text"]
    assert question["do"][0].startswith("weft retry")
    [row] = either.rows("SELECT id FROM tasks WHERE name = '1.1'")
    assert either.weft("retry", str(row["id"])).returncode == 0
    either.run("--resume")
    either.assert_landed_once("1.1", "1.2", "1.3")
    assert either.plan.read_text().count("[x]") == 3


@postgres_later
def test_002_a_file_outside_the_list_is_added_to_it_where_nobody_holds_it(
    either: RunProject,
) -> None:
    either.plan.write_text(
        "## Phase 1: All\n\n- [ ] Task 1: More than it said\n  <!-- files: src/a -->\n"
        "  - script: write src/a x\n  - script: write src/b x\n"
    )
    either.run("plan.md")
    assert either.landed("src/b") == "x\n"
    [event] = either.events("claims_extended")
    assert event["data"]["files"] == ["src/b"]


@postgres_later
def test_002_a_file_of_another_is_waited_for_and_the_work_is_kept(either: RunProject) -> None:
    """It becomes sequential: what it had done is kept, and it comes after who holds the file."""
    go = either.root.parent / "go"
    either.plan.write_text(
        "## Phase 1: All\n<!-- execution: parallel -->\n\n"
        "- [ ] Task 1: Holds it\n  <!-- files: src/a -->\n"
        f"  - script: wait {go}\n  - script: append src/a first\n"
        "- [ ] Task 2: Needs it, too\n  <!-- files: src/b -->\n"
        "  - script: write src/b x\n  - script: append src/a second\n"
    )
    process = either.start("run", "plan.md", "--slots", "2")
    wait_until(lambda: either.outcomes("1.2")[:1] == ["scope"])
    assert "src/b" in git(either.root, "log", "--all", "--name-only", "--format=")
    go.touch()
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, (out, err)
    assert either.outcomes("1.2") == ["scope", "success"]
    assert either.landed("src/a") == "first\nsecond\n"
    either.assert_landed_once("1.1", "1.2")
    either.assert_nothing_left()


@postgres_later
def test_000_a_worker_has_as_many_at_once_as_it_may_and_ends_what_it_began(
    either: RunProject,
) -> None:
    """Its cases 2 to 5: the rest queues, an assignment is refused and an offer is not, status
    follows use, and a worker that is asked to stop lets its agents end."""
    go = either.root.parent / "go"
    either.plan.write_text(
        "## Phase 1: All\n<!-- execution: parallel -->\n\n"
        + "".join(
            f"- [ ] Task {n}: Do {n}\n  <!-- files: src/p{n} -->\n"
            f"  - script: wait {go}\n  - script: write src/p{n} x\n"
            for n in range(1, 6)
        )
    )
    worker = either.start("worker", MAX_CONCURRENT_TASKS="3")
    wait_until(lambda: either.rows("SELECT * FROM workers"))
    with open_store(either.url) as store, Watcher(either) as watcher:
        [idle] = list_workers(store, now=time.time())
        assert idle.status == "idle"
        run = either.start("run", "plan.md", "--slots", "5")
        wait_until(lambda: len(set(either.marked().values())) == 3)
        [busy] = list_workers(store, now=time.time())
        assert (busy.id, busy.status) == (idle.id, "busy")
        assert sorted(either.states().values()) == ["ready"] * 2 + ["running"] * 3
        queued, other = either.rows("SELECT id FROM tasks WHERE state = 'ready' ORDER BY id")
        with pytest.raises(AtCapacity):
            assign(store, int(queued["id"]), busy.id, now=time.time())
        offer(store, int(other["id"]), busy.id, now=time.time())
        reject(store, int(other["id"]), busy.id, now=time.time())
        wait_until(lambda: watcher.agents and watcher.samples > ENOUGH)
        worker.send_signal(signal.SIGTERM)
        go.touch()  # who follows the run does the rest
        for process in (worker, run):
            out, err = process.communicate(timeout=PATIENCE)
            assert process.returncode == 0, (out, err)
    watcher.assert_saw_nothing()
    assert watcher.most[f"worker:{idle.id}"] == 3
    its = either.rows("SELECT outcome FROM attempts WHERE worker = ?", idle.id)
    assert len(its) >= 3
    assert {row["outcome"] for row in its} == {"success"}
    either.assert_landed_once(*(f"1.{n}" for n in range(1, 6)))
    either.assert_nothing_left()


def test_a_rate_limited_task_goes_on_when_its_time_has_come(project: RunProject) -> None:
    """Nobody rings at that moment: whoever waits knows when it is."""
    project.settings(heartbeat=15, lease=60)
    project.commit()
    project.plan.write_text(
        "## Phase 1: All\n\n- [ ] Task 1: Limited\n  <!-- files: src/a -->\n"
        "  - script: limit for 0.5\n  - script: write src/a x\n"
    )
    project.run("plan.md")
    first, second = project.rows("SELECT started, ended FROM attempts ORDER BY number")
    assert float(second["started"]) - float(first["ended"]) < 4.0  # a look just so comes after 5
    project.assert_landed_once("1.1")
