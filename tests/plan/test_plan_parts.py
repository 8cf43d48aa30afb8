"""Subtasks in a plan.md: `part-of` makes a story of a task."""

from __future__ import annotations

from cases import each_case
from weft import plan
from weft.model import Priority
from weft.plan.plan_records import Compiled, EdgeReason, ItemKind, Severity

PLAN = """\
## Phase 1: A

- [ ] Task 1: First
  <!-- files: a.py -->
- [ ] Task 2: Big
  <!-- files: b.py, c.py; check: make; priority: high; agent: deep; depends: phase2 -->
- [ ] Task 3: Last
  <!-- files: e.py -->
- [ ] The b part
  <!-- id: 1.2.a; part-of: task2; files: b.py -->
- [ ] The c part
  <!-- id: 1.2.b; part-of: 1.2; files: c.py, d.py; check: make c -->

## Phase 2: B
<!-- depends: -->
- [ ] Task 1: Elsewhere
  <!-- files: z.py -->
"""


def compiled(text: str) -> Compiled:
    read = plan.read("plan.md", text.encode())
    assert not [each for each in read.problems if each.severity is Severity.ERROR]
    return plan.compile(read.plan)


def test_a_story_holds_the_files_of_its_parts_and_comes_after_them() -> None:
    tasks = {task.id: task for task in compiled(PLAN).plan.tasks}
    assert list(tasks) == ["1.1", "1.2.a", "1.2.b", "1.2", "1.3", "2.1"]
    story, first, second = tasks["1.2"], tasks["1.2.a"], tasks["1.2.b"]
    assert (story.kind, first.kind) == (ItemKind.STORY, ItemKind.SUBTASK)
    assert story.files == ("b.py", "c.py", "d.py")
    assert (first.parent, first.agent, first.priority) == ("1.2", "deep", Priority.HIGH)
    assert (first.check, second.check) == ("make", "make c")
    assert "Big" in first.details, "the agent of a part sees what it is a part of"


def test_parts_take_the_place_of_their_story_and_are_free_among_themselves() -> None:
    graph = compiled(PLAN)
    edges = {(edge.before, edge.after) for edge in graph.edges}
    assert {("1.1", "1.2.a"), ("1.1", "1.2.b"), ("1.2.a", "1.2"), ("1.2.b", "1.2")} <= edges
    assert ("1.2", "1.3") in edges
    assert {("2.1", "1.2.a"), ("2.1", "1.2.b")} <= edges, "they wait for the phase of their story"
    assert not {("1.2.a", "1.2.b"), ("1.2.b", "1.2.a"), ("1.2.a", "1.3")} & edges


def test_parts_that_share_a_file_are_ordered_by_it() -> None:
    graph = compiled(PLAN.replace("files: c.py, d.py", "files: b.py, c.py"))
    overlaps = [edge for edge in graph.edges if edge.why is EdgeReason.OVERLAP]
    assert [(edge.before, edge.after) for edge in overlaps] == [("1.2.a", "1.2.b")]


def test_a_settled_story_settles_its_parts() -> None:
    tasks = compiled(PLAN.replace("- [ ] Task 2", "- [x] Task 2")).plan.tasks
    assert all(task.settled for task in tasks if task.id.startswith("1.2"))


@each_case(
    ("part", "words"),
    [
        ("id: me; part-of: me", "the task itself"),
        ("part-of: 1.2.a", "a part of 1.2"),
        ("part-of: 2.1", "another phase"),
        ("part-of: task2; agent: human", "a person's step"),
    ],
)
def test_a_part_that_cannot_be_is_an_error_with_its_line(part: str, words: str) -> None:
    text = PLAN.replace("- [ ] The c part", f"- [ ] Odd\n  <!-- {part} -->\n- [ ] The c part")
    read = plan.read("plan.md", text.encode())
    [problem] = [each for each in read.problems if each.code == "bad-part"]
    assert (problem.line, problem.severity) == (11, Severity.ERROR)
    assert words in problem.message
    plan.compile(read.plan)


def test_a_part_of_an_unknown_task_names_the_line() -> None:
    read = plan.read("plan.md", PLAN.replace("part-of: 1.2;", "part-of: 1.9;").encode())
    [problem] = [each for each in read.problems if each.severity is Severity.ERROR]
    assert (problem.code, problem.line) == ("unknown-task", 12)
