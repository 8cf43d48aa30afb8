"""[P] of spec-kit is checked against the history, not believed."""

from __future__ import annotations

from cases import each_case
from weft import plan
from weft.plan.plan_records import Plan
from weft.planning.claim_choice import order_doubtful
from weft.planning.history import History

PLAN = b"""\
## Phase 1: A
- [ ] T000 Write src/z.py
- [ ] T001 [P] Write src/a.py
- [ ] T002 [P] Write src/b.py
- [ ] T003 [P] Write src/c.py
- [ ] T004 Write src/d.py
- [ ] T005 [P] Write src/e.py
"""


def history_of(*commits: tuple[str, ...]) -> History:
    history = History()
    for number, files in enumerate(commits):
        history.add(f"commit {number}", files)
    return history


def tasks() -> Plan:
    return plan.read("tasks.md", PLAN).plan


@each_case(
    ("commits", "pairs"),
    [
        ([("src/a.py", "src/b.py")] * 3, [("T001", "T002")]),
        ([("src/a.py", "src/b.py")] * 2, []),
        ([*[("src/a.py", "src/c.py")] * 3, *[("src/a.py",)] * 3], [("T001", "T003")]),
        ([*[("src/a.py", "src/c.py")] * 3, *[("src/a.py",), ("src/c.py",)] * 4], []),
        ([("src/a.py", "src/d.py")] * 3, []),  # T004 waits for T001 anyway
        ([("src/a.py", "src/e.py")] * 3, []),  # another group
        ([("src/a.py", "src/b.py", "src/c.py")] * 9,
         [("T001", "T002"), ("T001", "T003"), ("T002", "T003")]),
        ([("src/a.py", "src/b.py")] * 30, []),  # both are in every commit
    ],
)  # fmt: skip
def test_neighbours_whose_files_change_together_follow_each_other(
    commits: list[tuple[str, ...]], pairs: list[tuple[str, str]]
) -> None:
    before = tasks()
    ordered, problems = order_doubtful(before, history_of(*commits))
    old = {task.id: {reference.to for reference in task.depends} for task in before.tasks}
    new = [
        (reference.to, task.id)
        for task in ordered.tasks
        for reference in task.depends
        if reference.to not in old[task.id]
    ]
    assert sorted(new) == pairs
    kept = {task.id: {reference.to for reference in task.depends} for task in ordered.tasks}
    assert all(old[id] <= kept[id] for id in old)
    assert [problem.code for problem in problems] == ["parallel-doubtful"] * len(pairs)


def test_the_author_is_told_the_files_and_the_commits() -> None:
    _, [problem] = order_doubtful(tasks(), history_of(*[("src/a.py", "src/b.py")] * 3))
    assert problem.line == 4
    assert problem.message == (
        "T001 and T002 are marked [P], but src/a.py and src/b.py changed together in 3 of 3 "
        "commits; T002 waits for T001."
    )


def test_done_work_is_not_doubted() -> None:
    done = plan.read("tasks.md", PLAN.replace(b"[ ] T001", b"[x] T001")).plan
    assert order_doubtful(done, history_of(*[("src/a.py", "src/b.py")] * 3)) == (done, ())
