"""parallel_state.json, in the shape that the earlier design gave it."""

from __future__ import annotations

import pytest

from plan.planning import reading
from weft.errors import InputError
from weft.plan.parallel_state import Times, build_parallel_state

TRACK = """
    ## Phase 0: Before
    - [x] Task 1: Done long ago
    ## Phase 1: Setup
    <!-- execution: parallel -->
    - [x] Task 1: Create auth module abc1234
      <!-- files: src/auth.ts, src/auth.test.ts -->
    - [~] Task 2: Create config module
      <!-- files: src/config.ts -->
    - [ ] Task 3: Create utils module
      <!-- files: src/utils.ts -->
"""


def test_the_first_unfinished_phase_is_described() -> None:
    times = {
        "1.1": Times(started="2024-12-30T10:00:00Z", completed="2024-12-30T10:05:00Z"),
        "1.2": Times(started="2024-12-30T10:00:00Z"),
    }
    assert build_parallel_state(reading(TRACK).plan, times=times) == {
        "phase": "Phase 1: Setup",
        "execution_mode": "parallel",
        "started_at": "2024-12-30T10:00:00Z",
        "workers": [
            {
                "worker_id": "worker_1_auth",
                "task": "Task 1: Create auth module",
                "files": ["src/auth.ts", "src/auth.test.ts"],
                "status": "completed",
                "started_at": "2024-12-30T10:00:00Z",
                "completed_at": "2024-12-30T10:05:00Z",
                "commit_sha": "abc1234",
            },
            {
                "worker_id": "worker_2_config",
                "task": "Task 2: Create config module",
                "files": ["src/config.ts"],
                "status": "in_progress",
                "started_at": "2024-12-30T10:00:00Z",
            },
            {
                "worker_id": "worker_3_utils",
                "task": "Task 3: Create utils module",
                "files": ["src/utils.ts"],
                "status": "pending",
            },
        ],
        "file_locks": {"src/config.ts": "worker_2_config"},
        "completed_workers": 1,
        "total_workers": 3,
    }


def test_a_phase_can_be_chosen() -> None:
    state = build_parallel_state(reading(TRACK).plan, phase="0")
    assert (state["phase"], state["execution_mode"]) == ("Phase 0: Before", "sequential")
    assert state["completed_workers"] == state["total_workers"] == 1


def test_a_phase_that_is_not_there_is_refused() -> None:
    with pytest.raises(InputError, match="no phase '7'"):
        build_parallel_state(reading(TRACK).plan, phase="7")


def test_when_all_is_done_the_last_phase_is_described() -> None:
    plan = reading("## Phase 1: a\n- [x] a\n## Phase 2: b\n- [-] b\n").plan
    assert build_parallel_state(plan)["phase"] == "Phase 2: b"


def test_an_empty_plan_has_no_workers() -> None:
    assert build_parallel_state(reading("").plan)["total_workers"] == 0
