"""parallel_state.json, in the shape that the earlier design gave it."""

from __future__ import annotations

import pytest

from cases import each_case
from plan.planning import reading
from weft.errors import InputError
from weft.model import State
from weft.plan.plan_json import TaskProgress, build_parallel_state
from weft.plan.plan_records import Source

TEN = 1_735_552_800.0  # 2024-12-30T10:00:00Z
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
PLANS = {
    Source.PRD: '{"stories": [{"id": "a", "title": "A", "subtasks": [{"title": "B"}]}]}',
    Source.BEADS: '{"id": "bd-1", "title": "A", "status": "open"}',
    Source.TASK_MASTER: '{"tasks": [{"id": 1, "title": "A"}]}',
    Source.SPEC_KIT: "- [ ] T001 A in a/b.py\n- [ ] T002 A in a/b.py\n",
    Source.KIRO: "- [ ] 1. A\n  - [ ] 1.1 B\n",
    Source.OPENSPEC: "## 1. A\n- [ ] 1.1 B\n",
    Source.SUPERPOWERS: "### Task 1: A\n**Files:**\n- Create: `a`\n",
    Source.MARKDOWN: "- [ ] a\n",
}


def test_the_first_unfinished_phase_is_described() -> None:
    progress = {
        "1.1": TaskProgress(
            state=State.DONE,
            files=("src/auth.ts", "src/auth.test.ts"),
            started=TEN,
            completed=TEN + 300,
            commit="abc1234",
        ),
        "1.2": TaskProgress(state=State.PAUSED, files=("src/config.ts",), started=TEN),
    }
    assert build_parallel_state(reading(TRACK).plan, progress=progress) == {
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


@each_case(
    ("state", "timed_out", "status"),
    [
        (State.READY, True, "pending"),
        (State.GATING, True, "in_progress"),
        (State.BLOCKED, True, "timed_out"),
        (State.FAILED, True, "timed_out"),
        (State.FAILED, False, "failed"),
        (State.BLOCKED, False, "blocked"),
        (State.CANCELLED, False, "cancelled"),
    ],
)
def test_the_run_decides_the_status_and_the_error_is_told(
    state: State, timed_out: bool, status: str
) -> None:
    own = TaskProgress(
        state=state, files=("a", "b"), started=TEN, timed_out=timed_out, error="It broke."
    )
    described = build_parallel_state(reading(TRACK).plan, "1", {"1.3": own})
    assert described["workers"][2] == {
        "worker_id": "worker_3_utils",
        "task": "Task 3: Create utils module",
        "files": ["a", "b"],
        "status": status,
        "started_at": "2024-12-30T10:00:00Z",
        "error": "It broke.",
    }
    locks = {"a": "worker_3_utils", "b": "worker_3_utils"} if status == "in_progress" else {}
    assert described["file_locks"] == {"src/config.ts": "worker_2_config", **locks}


def test_a_finished_phase_has_its_end() -> None:
    plan = reading("## Phase 1: a\n- [ ] a\n- [-] b\n").plan
    own = TaskProgress(state=State.DONE, files=(), started=TEN, completed=TEN + 1)
    assert build_parallel_state(plan, progress={"1.1": own})["completed_at"] == (
        "2024-12-30T10:00:01Z"
    )


def test_every_state_of_a_task_has_a_status() -> None:
    plan = reading("## Phase 1: a\n- [ ] a\n").plan
    for state in State:
        own = {"1.1": TaskProgress(state=state, files=())}
        assert build_parallel_state(plan, "1", own)["workers"][0]["status"]


@each_case("kind", PLANS)
def test_each_format_has_a_state(kind: Source) -> None:
    parsed = reading(PLANS[kind], {Source.PRD: "prd.json", Source.BEADS: "a.jsonl"}.get(kind, ""))
    assert parsed.plan.source is kind
    state = build_parallel_state(parsed.plan)
    assert state["total_workers"] == len(parsed.plan.tasks) > 0
    assert len({worker["worker_id"] for worker in state["workers"]}) == len(parsed.plan.tasks)


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
