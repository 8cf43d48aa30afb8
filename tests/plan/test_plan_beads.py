"""Beads exports: open issues, their blockers and their parents."""

from __future__ import annotations

import json
from typing import Any

from msgspec.structs import replace

from cases import each_case
from plan.planning import codes, compiled, edges, errors, only, order, problems, reading, tasks
from weft import plan
from weft.model import Priority, State
from weft.plan.plan_records import EdgeReason, ItemKind, ReaderOptions, Severity


def issue(id: str, *links: tuple[str, str], **fields: Any) -> str:
    """Return a line of an export; a link is its kind and the other issue."""
    return json.dumps(
        {
            "id": id,
            "title": f"title of {id}",
            "status": "open",
            "priority": 2,
            "issue_type": "task",
            "metadata": {"files": [f"{id}.py"]},
            "dependencies": [
                {"issue_id": id, "depends_on_id": to, "type": kind} for kind, to in links
            ],
            **fields,
        }
    )


def export(*lines: str) -> str:
    return "\n".join(lines) + "\n"


def test_open_issues_become_tasks_and_closed_ones_are_met() -> None:
    text = export(
        issue("bd-1", status="closed"),
        issue("bd-2", ("blocks", "bd-1"), status="in_progress", assignee="weft/w"),
        issue("bd-3", ("blocks", "bd-2")),
        issue("bd-4", status="tombstone"),
    )
    by_id = tasks(text, "issues.jsonl")
    assert {id: task.status for id, task in by_id.items()} == {
        "bd-2": State.WAITING,
        "bd-3": State.WAITING,
    }
    assert edges(compiled(text, "issues.jsonl")) == {("bd-2", "bd-3")}


@each_case(
    ("number", "priority"),
    [
        (0, Priority.CRITICAL),
        (1, Priority.HIGH),
        (2, Priority.NORMAL),
        (3, Priority.LOW),
        (4, Priority.BACKGROUND),
    ],
)
def test_priorities_are_numbers(number: int, priority: Priority) -> None:
    assert tasks(export(issue("bd-1", priority=number)), "x.jsonl")["bd-1"].priority is priority


def test_a_parent_comes_after_its_children_and_claims_nothing_of_its_own() -> None:
    text = export(
        issue("bd-1", issue_type="epic", metadata={}),
        issue("bd-1.1", ("parent-child", "bd-1")),
        issue("bd-1.2", ("parent-child", "bd-1"), ("blocks", "bd-1.1")),
    )
    result = compiled(text, "issues.jsonl")
    assert edges(result, EdgeReason.PART) == {("bd-1.1", "bd-1"), ("bd-1.2", "bd-1")}
    assert edges(result, EdgeReason.EXPLICIT) == {("bd-1.1", "bd-1.2")}
    epic = tasks(text, "issues.jsonl")["bd-1"]
    assert (epic.kind, epic.claims) == (ItemKind.EPIC, ())


def test_what_blocks_a_parent_blocks_its_children_and_theirs() -> None:
    text = export(
        issue("bd-0"),
        issue("bd-1", ("blocks", "bd-0"), issue_type="epic"),
        issue("bd-1.1", ("parent-child", "bd-1"), issue_type="epic"),
        issue("bd-1.1.1", ("parent-child", "bd-1.1")),
    )
    assert ("bd-0", "bd-1.1.1") in order(compiled(text, "issues.jsonl"))


def test_a_child_that_blocks_its_own_parent_is_no_cycle() -> None:
    text = export(
        issue("bd-1", ("blocks", "bd-1.1"), issue_type="epic"),
        issue("bd-1.1", ("parent-child", "bd-1")),
        issue("bd-1.2", ("parent-child", "bd-1")),
    )
    assert order(compiled(text, "issues.jsonl")) == {("bd-1.1", "bd-1"), ("bd-1.2", "bd-1")}


def test_other_links_and_other_lines_are_left_alone() -> None:
    text = export(
        issue("bd-1"),
        issue("bd-2", ("related", "bd-1"), ("discovered-from", "gone")),
        '{"_type": "memory", "key": "x"}',
        issue("bd-3", issue_type="message"),
        "",
    )
    assert list(tasks(text, "issues.jsonl")) == ["bd-1", "bd-2"]
    assert problems(text, "issues.jsonl") == []


def test_metadata_may_be_a_string_of_json() -> None:
    text = export(issue("bd-1", metadata='{"files": ["a.py"], "agent": "codex"}'))
    task = tasks(text, "issues.jsonl")["bd-1"]
    assert (task.files, task.agent) == (("a.py",), "codex")


def test_blocked_is_a_status_only_if_nothing_in_the_plan_explains_it() -> None:
    by_id = tasks(
        export(
            issue("bd-1"),
            issue("bd-2", ("blocks", "bd-1"), status="blocked"),
            issue("bd-3", status="blocked"),
        ),
        "issues.jsonl",
    )
    assert [task.status for task in by_id.values()] == [
        State.WAITING,
        State.WAITING,
        State.BLOCKED,
    ]


@each_case(
    "held",
    [
        {"status": "deferred"},
        {"status": "open", "defer_until": "2030-01-01T00:00:00Z"},
        {"status": "open", "defer_until": "someday"},
        {"status": "hooked"},
        {"status": "in_progress", "assignee": "alice"},
        {"status": "open", "assignee": "alice"},
    ],
)
def test_held_issues_and_those_that_need_them_are_listed_and_not_taken(
    held: dict[str, str],
) -> None:
    text = export(
        issue("bd-1", **held),
        issue("bd-2", ("blocks", "bd-1")),
        issue("bd-3"),
    )
    options = ReaderOptions(now=1_800_000_000)  # in 2027
    reading = plan.read("issues.jsonl", text.encode(), options)
    assert [task.id for task in reading.plan.tasks] == ["bd-3"]
    listed = [problem.message for problem in reading.problems if problem.code == "not-taken"]
    assert [message.partition(" ")[0] for message in listed] == ["bd-1", "bd-2"]
    taken = plan.read("issues.jsonl", text.encode(), replace(options, take=frozenset({"bd-1"})))
    assert [task.id for task in taken.plan.tasks] == ["bd-1", "bd-2", "bd-3"]
    assert edges(plan.compile(taken.plan)) == {("bd-1", "bd-2")}


def test_an_issue_whose_time_has_come_is_taken() -> None:
    text = export(issue("bd-1", defer_until="2026-01-01T00:00:00Z"))
    reading = plan.read("x.jsonl", text.encode(), ReaderOptions(now=1_800_000_000))
    assert [task.id for task in reading.plan.tasks] == ["bd-1"]


def test_an_epic_is_not_taken_before_all_its_children_are() -> None:
    text = export(
        issue("bd-1", issue_type="epic"),
        issue("bd-1.1", ("parent-child", "bd-1"), status="hooked"),
        issue("bd-1.2", ("parent-child", "bd-1")),
    )
    assert list(tasks(text, "x.jsonl")) == ["bd-1.2"]


def test_a_link_to_a_missing_issue_is_a_warning() -> None:
    text = export(issue("bd-1"), issue("bd-2", ("blocks", "bd-11")))
    problem = only(problems(text, "x.jsonl"), "unknown-task")
    assert problem.severity is Severity.WARNING
    assert list(tasks(text, "x.jsonl")) == ["bd-1", "bd-2"]


def test_an_issue_without_files_runs_alone_and_is_warned() -> None:
    text = export(issue("bd-1", metadata={}))
    assert tasks(text, "x.jsonl")["bd-1"].claims == ("**",)
    assert codes(problems(text, "x.jsonl")) == ["no-files"]


def test_the_later_line_of_an_issue_counts() -> None:
    text = export(issue("bd-1", title="old"), issue("bd-1", title="new"))
    assert tasks(text, "x.jsonl")["bd-1"].text == "new"


@each_case(
    ("line", "code"),
    [
        ("{", "not-json"),
        ("[1]", "bad-value"),
        ('{"title": "no id"}', "bad-value"),
        ('{"id": "x", "title": ""}', "empty-task"),
        (issue("bd-2", status="opne"), "bad-value"),
        (issue("bd-2", dependencies=[3]), "bad-value"),
        (issue("bd-2", metadata={"files": ["/x"]}), "bad-path"),
    ],
)
def test_what_is_wrong_has_its_line(line: str, code: str) -> None:
    problem = only(errors(problems(export(issue("bd-1"), line), "issues.jsonl")), code)
    assert problem.line == 2
    assert problem.pointer is not None


def test_issues_that_are_each_others_parents_are_a_cycle() -> None:
    text = export(issue("bd-1", ("parent-child", "bd-2")), issue("bd-2", ("parent-child", "bd-1")))
    assert codes(errors(problems(text, "x.jsonl"))) == ["cycle"]


def test_issues_that_block_each_other_are_a_cycle() -> None:
    text = export(issue("bd-1", ("blocks", "bd-2")), issue("bd-2", ("blocks", "bd-1")))
    assert (
        "bd-1 (line 1) → bd-2 (line 2) → bd-1" in only(problems(text, "x.jsonl"), "cycle").message
    )


def test_an_export_is_told_by_its_first_line_if_its_name_does_not_say() -> None:
    assert list(tasks(export(issue("bd-1"), issue("bd-2")), "export")) == ["bd-1", "bd-2"]
    assert list(tasks('{"stories": [{"id": "S", "title": "t"}]}', "export")) == ["S"]
    assert list(tasks('{\n"stories": [{"id": "S", "title": "t"}]}', "export")) == ["S"]
    assert list(tasks("- [ ] a\n", "export")) == ["1.1"]


def test_an_export_without_issues_is_an_error() -> None:
    assert codes(reading("", "issues.jsonl").problems) == ["no-tasks"]
