"""task-master's tasks.json: its tags, subtasks, dependencies and statuses."""

from __future__ import annotations

import json
from typing import Any

from cases import each_case
from plan.planning import codes, errors, needs, only
from weft import plan
from weft.model import Priority, State
from weft.plan.plan_records import ItemKind, ParsedPlan, PlanTask, ReaderOptions, Source


def task(id: int | str, **fields: Any) -> dict[str, Any]:
    return {"id": id, "title": f"Title {id}", **fields}


PARSER = task(
    5,
    description="Reads plans.",
    details="Line by line.",
    testStrategy="make test passes",
    priority="high",
    dependencies=[1],
    status="pending",
    subtasks=[
        task(1, dependencies=[], status="done", metadata={"files": ["src/lexer.py"]}),
        task(2, dependencies=[1], status="pending", details="With a table."),
        task(3, dependencies=["5.2", 4], testStrategy="a table of cases"),
    ],
)
TASKS = [task(1, status="done"), task(4), PARSER]


def read(document: object, **options: Any) -> ParsedPlan:
    return plan.read("tasks.json", json.dumps(document).encode(), ReaderOptions(**options))


def by_id(document: object, **options: Any) -> dict[str, PlanTask]:
    parsed = read(document, **options)
    assert errors(parsed.problems) == []
    return {each.id: each for each in parsed.plan.tasks}


@each_case(
    ("document", "kind"),
    [
        ({"tasks": TASKS}, Source.TASK_MASTER),
        ({"master": {"tasks": TASKS, "metadata": {}}}, Source.TASK_MASTER),
        ({"meta": {"projectName": "x"}, "tasks": []}, Source.TASK_MASTER),
        ({"tasks": [], "stories": []}, Source.PRD),
        ({"userStories": [{"tasks": []}]}, Source.PRD),
        ({"title": "x", "stories": []}, Source.PRD),
        ([{"id": 1}], Source.PRD),
        ("text", Source.PRD),
    ],
)
def test_the_format_is_found_by_the_list_of_tasks(document: object, kind: Source) -> None:
    data = json.dumps(document).encode()
    assert plan.detect("tasks.json", data) is kind
    assert plan.detect("", data) is kind or document == "text"
    assert plan.detect("a.json", b"\xef\xbb\xbf" + data) is kind


@each_case("document", [{"tasks": TASKS}, {"master": {"tasks": TASKS}}])
def test_subtasks_are_the_work_of_their_task(document: object) -> None:
    tasks = by_id(document)
    assert list(tasks) == ["1", "4", "5.1", "5.2", "5.3", "5"]
    whole, part = tasks["5"], tasks["5.2"]
    assert (whole.kind, part.kind, part.parent) == (ItemKind.EPIC, ItemKind.TASK, "5")
    assert (part.priority, part.details) == (
        Priority.HIGH,
        "With a table.\n\nPart of 5 Title 5\nReads plans.\n\nLine by line.",
    )
    assert tasks["5.3"].criteria == ("a table of cases",)
    assert (tasks["5.1"].status, tasks["5.1"].files) == (State.DONE, ("src/lexer.py",))


def test_a_number_in_a_subtask_means_a_sibling_before_a_task() -> None:
    pairs = needs(plan.compile(read({"tasks": TASKS}).plan))
    assert {("5.1", "5.2"), ("5.2", "5.3"), ("4", "5.3"), ("1", "5.2")} <= pairs
    assert ("1", "5.2") in pairs  # a part waits for the needs of its whole
    assert ("4", "5.2") not in pairs


@each_case(
    ("status", "state"),
    [
        ("pending", State.WAITING),
        ("in-progress", State.RUNNING),
        ("In_Progress", State.RUNNING),
        ("done", State.DONE),
        ("completed", State.DONE),
        ("cancelled", State.SKIPPED),
        ("deferred", State.BLOCKED),
        ("review", State.BLOCKED),
        ("blocked", State.BLOCKED),
        ("on ice", State.BLOCKED),
        (None, State.WAITING),
    ],
)
def test_a_status_of_any_word_is_work_done_left_out_or_held(
    status: str | None, state: State
) -> None:
    document = {"tasks": [task(1, status=status, files=["a"])]}
    parsed = read(document)
    assert parsed.plan.tasks[0].status is state
    held = state is State.BLOCKED
    assert codes(parsed.problems) == ["held-back"] * held
    assert read(document, take=frozenset({"1"})).problems == ()


@each_case(
    ("status", "states"),
    [
        ("deferred", [State.DONE, State.BLOCKED, State.BLOCKED]),
        ("done", [State.DONE, State.DONE, State.DONE]),
        ("cancelled", [State.DONE, State.SKIPPED, State.SKIPPED]),
        ("in-progress", [State.DONE, State.WAITING, State.WAITING]),
    ],
)
def test_the_subtasks_of_a_held_or_settled_task_are_so_too(
    status: str, states: list[State]
) -> None:
    document = {"tasks": [*TASKS[:2], {**PARSER, "status": status}]}
    assert [each.status for each in read(document).plan.tasks[2:5]] == states
    taken = read(document, take=frozenset({"5"})).plan.tasks
    if status == "deferred":
        assert [each.status for each in taken[3:5]] == [State.WAITING, State.WAITING]


def test_the_tasks_of_other_tags_are_told() -> None:
    document = {"master": {"tasks": TASKS}, "later": {"tasks": [task(1), task(2)]}}
    other = only(read(document).problems, "other-tags")
    assert "later (2 tasks)" in other.message
    assert by_id({"later": {"tasks": [task(1)]}, "empty": {"tasks": []}}).keys() == {"1"}


@each_case(
    ("document", "code", "pointer"),
    [
        ({"tasks": 3}, "bad-value", "/tasks"),
        ({"tasks": []}, "no-tasks", "/tasks"),
        ({"tasks": [3]}, "bad-value", "/tasks/0"),
        ({"tasks": [{"title": "x"}]}, "bad-value", "/tasks/0"),
        ({"tasks": [{"id": 1}]}, "empty-task", "/tasks/0"),
        ({"tasks": [task(1), task(1)]}, "duplicate-id", "/tasks/1"),
        ({"tasks": [task(1, dependencies=[7])]}, "unknown-task", "/tasks/0/dependencies/0"),
        ({"tasks": [task(1, priority="urgentest")]}, "bad-value", "/tasks/0/priority"),
        ({"tasks": [task(1, files=["../x"])]}, "bad-path", "/tasks/0/files/0"),
        (
            {"a": {"tasks": [task(1)]}, "b": {"tasks": [task(1)]}},
            "several-tags",
            "",
        ),
        (
            {"m": {"tasks": [task(1, subtasks=[task(1, metadata={"files": ["/x"]})])]}},
            "bad-path",
            "/m/tasks/0/subtasks/0/metadata/files/0",
        ),
    ],
)
def test_a_file_that_cannot_be_read_honestly_is_refused(
    document: object, code: str, pointer: str
) -> None:
    parsed = read(document)
    assert (code, pointer) in {(each.code, each.pointer) for each in errors(parsed.problems)}
    assert parsed.plan.tasks == ()
