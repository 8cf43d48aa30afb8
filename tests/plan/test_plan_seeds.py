"""The examples that the earlier designs drew compile to exactly the flow their authors drew."""

from __future__ import annotations

import json

from plan.planning import compiled, edges, needs, order, waves
from weft.plan.plan_records import EdgeReason

# The full example of seed 002.
AUTHENTICATION = """
    ## Phase 1: Core Auth Setup
    <!-- execution: parallel -->

    - [ ] Task 1: Create OAuth provider module
      <!-- files: src/auth/oauth.ts, src/auth/oauth.test.ts -->

    - [ ] Task 2: Create session management module
      <!-- files: src/auth/session.ts, src/auth/session.test.ts -->

    - [ ] Task 3: Create auth config module
      <!-- files: src/config/auth.ts -->

    ## Phase 2: UI
    <!-- execution: parallel -->
    <!-- depends: -->

    - [ ] Task 1: Create login page
      <!-- files: src/pages/login.tsx, src/pages/login.test.tsx -->

    - [ ] Task 2: Create profile page
      <!-- files: src/pages/profile.tsx, src/pages/profile.test.tsx -->

    ## Phase 3: Integration
    <!-- execution: sequential -->
    <!-- depends: phase1, phase2 -->

    - [ ] Task 1: Integrate OAuth with sessions

    - [ ] Task 2: Create login route handler

    - [ ] Task 3: Create logout route handler
"""


def test_phases_one_and_two_run_together_and_phase_three_one_by_one() -> None:
    result = compiled(AUTHENTICATION)
    assert waves(result) == [["1.1", "1.2", "1.3", "2.1", "2.2"], ["3.1"], ["3.2"], ["3.3"]]
    assert result.width == 5


def test_the_full_example_has_exactly_the_edges_that_were_drawn() -> None:
    result = compiled(AUTHENTICATION)
    assert edges(result, EdgeReason.PHASE) == {
        (before, "3.1") for before in ("1.1", "1.2", "1.3", "2.1", "2.2")
    }
    assert edges(result, EdgeReason.SEQUENTIAL) == {("3.1", "3.2"), ("3.2", "3.3")}
    assert edges(result) == edges(result, EdgeReason.PHASE, EdgeReason.SEQUENTIAL)


def test_the_format_example_runs_all_but_what_says_it_waits() -> None:
    result = compiled(
        """
        ## Phase 1: Setup
        <!-- execution: parallel -->

        - [ ] Task 1: Create auth module
          <!-- files: src/auth.ts, src/auth.test.ts -->

        - [ ] Task 2: Create config module
          <!-- files: src/config.ts -->

        - [ ] Task 3: Create utils module
          <!-- files: src/utils.ts -->
          <!-- depends: task1 -->

        ## Phase 2: UI Components
        <!-- execution: parallel -->
        <!-- depends: -->
        <!-- (No phase dependency = can run parallel with Phase 1) -->

        - [ ] Task 1: Create login page
          <!-- files: src/pages/login.tsx -->

        ## Phase 3: Integration
        <!-- execution: sequential -->
        <!-- depends: phase1, phase2 -->

        - [ ] Task 1: Wire up auth with UI
        """
    )
    assert waves(result) == [["1.1", "1.2", "2.1"], ["1.3"], ["3.1"]]
    assert needs(result) == {("1.1", "1.3"), ("1.2", "3.1"), ("1.3", "3.1"), ("2.1", "3.1")}


def test_a_plan_without_annotations_runs_as_it_always_did() -> None:
    result = compiled(
        """
        ## Phase 1: Setup

        - [ ] Task 1: Create auth module
        - [ ] Task 2: Create config module
        - [ ] Task 3: Create utils module

        ## Phase 2: Rest

        - [ ] Task 1: The rest
        """
    )
    assert waves(result) == [["1.1"], ["1.2"], ["1.3"], ["2.1"]]


def test_the_diagram_with_a_task_that_depends_on_another() -> None:
    """1A, 1B and 1C, then 2A and 2B, and 2C after 2A."""
    result = compiled(
        """
        ## Phase 1: One
        <!-- execution: parallel -->
        - [ ] Task 1A: a
          <!-- files: auth.ts -->
        - [ ] Task 1B: b
          <!-- files: config.ts -->
        - [ ] Task 1C: c
          <!-- files: utils.ts -->

        ## Phase 2: Two
        <!-- execution: parallel -->
        - [ ] Task 2A: a
          <!-- files: api.ts -->
        - [ ] Task 2B: b
          <!-- files: models.ts -->
        - [ ] Task 2C: c
          <!-- files: routes.ts -->
          <!-- depends: task2A -->
        """
    )
    assert waves(result) == [["1.1A", "1.1B", "1.1C"], ["2.2A", "2.2B"], ["2.2C"]]


def story(id: str, files: list[str], depends_on: list[str] | None = None) -> dict[str, object]:
    return {"id": id, "title": id, "files": files, "depends_on": depends_on or []}


def prd(*stories: dict[str, object]) -> str:
    return json.dumps({"title": "Loop", "stories": list(stories)})


def test_stories_a_and_b_run_together_and_c_waits_for_a() -> None:
    """The execution model of seed 003."""
    result = compiled(
        prd(story("A", ["a.ts"]), story("B", ["b.ts"]), story("C", ["c.ts"], ["A"])), "prd.json"
    )
    assert waves(result) == [["A", "B"], ["C"]]


def test_stories_that_share_a_file_run_one_after_the_other() -> None:
    result = compiled(
        prd(story("LOOP-3", ["review.ts"]), story("LOOP-4", ["review.ts"])), "prd.json"
    )
    assert edges(result) == edges(result, EdgeReason.OVERLAP) == {("LOOP-3", "LOOP-4")}


def test_subtasks_run_together_and_their_story_comes_when_all_are_finished() -> None:
    decomposed = story("LOOP-3", [], ["LOOP-1"]) | {
        "subtasks": [
            {"id": "LOOP-3.a", "description": "remove test-writing code", "files": ["a.ts"]},
            {"id": "LOOP-3.b", "description": "add evaluation prompt", "files": ["b.ts"]},
            {
                "id": "LOOP-3.c",
                "description": "wire structured output",
                "files": ["c.ts"],
                "depends_on": ["LOOP-3.a"],
            },
        ]
    }
    result = compiled(
        prd(story("LOOP-1", ["x.ts"]), decomposed, story("LOOP-4", ["d.ts"], ["LOOP-3"])),
        "prd.json",
    )
    assert waves(result) == [
        ["LOOP-1"],
        ["LOOP-3.a", "LOOP-3.b"],
        ["LOOP-3.c"],
        ["LOOP-3"],
        ["LOOP-4"],
    ]
    assert edges(result, EdgeReason.PART) == {
        (f"LOOP-3.{letter}", "LOOP-3") for letter in ("a", "b", "c")
    }
    assert ("LOOP-1", "LOOP-3.b") in order(result)
