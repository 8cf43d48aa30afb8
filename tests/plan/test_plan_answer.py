"""The plan in the answer of an agent, however the agent wraps it."""

from __future__ import annotations

from cases import each_case
from weft.plan.plan_prose import find_plan

PLAN = "# Login\n\n## Phase 1: All\n\n- [ ] Task 1: Write it\n  <!-- files: a.py -->\n"


@each_case(
    "answer",
    [
        PLAN,
        PLAN.replace("\n", "\r\n"),
        f"Here is the plan you asked for:\n\n{PLAN}",
        f"{PLAN}\nI hope that this helps.\nTell me if it does not.",
        f"```markdown\n{PLAN}```",
        f"Sure!\n\n~~~~\n{PLAN}~~~~\n\nDone.",
        f"```\n{PLAN}",  # never closed
        f"```sh\nls\n```\n\nThis is it:\n```\n{PLAN}```",
        f"```\n- [ ] Task 1: A draft\n```\nBetter:\n```md\n{PLAN}```",
    ],
)
def test_fences_and_prose_around_a_plan_are_removed(answer: str) -> None:
    assert find_plan(answer) == PLAN


@each_case(
    "answer",
    ["", "I cannot do that.", "# Login\n\n- Task 1: no box", "```\nprint()\n```", "\0", "[ ] no"],
)
def test_an_answer_without_a_task_has_no_plan(answer: str) -> None:
    assert find_plan(answer) is None


def test_a_code_fence_inside_a_task_stays_in_the_plan() -> None:
    plan = f"{PLAN}  ```sh\n  make test\n  ```\n- [ ] Task 2: More\n"
    assert find_plan(plan) == plan
    assert find_plan(f"````\n{plan}````") == plan


def test_a_plan_without_a_title_begins_with_its_first_task() -> None:
    assert find_plan("Well:\n\n- [ ] Task 1: Write it\n") == "- [ ] Task 1: Write it\n"
