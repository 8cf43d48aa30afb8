"""prd.json: stories, subtasks, and a pointer to each malformed value."""

from __future__ import annotations

import json
from typing import Any

from cases import each_case
from plan.planning import codes, compiled, edges, errors, only, problems, reading, tasks
from weft.model import Priority, State
from weft.plan import read
from weft.plan.plan_records import EdgeReason, ItemKind, PlanTask


def prd(*stories: Any, **rest: Any) -> str:
    return json.dumps({"title": "T", "stories": list(stories), **rest}, indent=1)


def story(**fields: Any) -> dict[str, Any]:
    return {"id": "S", "title": "a story", "files": ["a.py"], **fields}


def read_one(**fields: Any) -> PlanTask:
    (task,) = tasks(prd(story(**fields)), "prd.json").values()
    return task


def test_a_story_is_read_with_everything_it_says() -> None:
    task = read_one(
        description="More.",
        acceptance_criteria=["it works", "it is fast"],
        priority="high",
        agent="codex",
        check="make test",
        passes=False,
    )
    assert (task.id, task.text, task.files) == ("S", "a story", ("a.py",))
    assert (task.details, task.criteria) == ("More.", ("it works", "it is fast"))
    assert (task.priority, task.agent, task.check) == (Priority.HIGH, "codex", "make test")
    assert task.status is State.WAITING
    assert task.line == 4


@each_case("value", ["gpu, arm64", ["gpu", "arm64"], ["gpu", "arm64", "gpu"]])
@each_case("key", ["needs_labels", "needsLabels"])
def test_labels_are_a_list_or_text(key: str, value: object) -> None:
    assert read_one(**{key: value}).needs_labels == ("gpu", "arm64")


def test_a_bad_label_is_an_error_with_its_pointer() -> None:
    text = prd(story(needs_labels=["gpu", "Big GPU"]))
    assert only(problems(text, "prd.json"), "bad-value").pointer == "/stories/0/needs_labels/1"


def test_a_subtask_asks_for_the_labels_of_its_story_too() -> None:
    subtasks = [{"title": "x", "files": ["x"], "needs_labels": "big"}, {"title": "y", "files": []}]
    read_tasks = tasks(prd(story(needs_labels="gpu", subtasks=subtasks)), "prd.json")
    assert read_tasks["S.a"].needs_labels == ("big", "gpu")
    assert read_tasks["S.b"].needs_labels == ("gpu",)


def test_camel_case_is_read_too() -> None:
    text = json.dumps(
        {
            "userStories": [
                {"id": 1, "title": "a", "files": ["a"], "acceptanceCriteria": ["x"]},
                {"id": 2, "title": "b", "files": ["b"], "dependsOn": [1], "parallelGroup": 1},
            ]
        }
    )
    first, second = tasks(text, "prd.json").values()
    assert first.criteria == ("x",)
    assert [each.to for each in second.depends] == ["1"]
    assert second.phase == "1"


@each_case(
    ("fields", "status"),
    [
        ({"passes": True}, State.DONE),
        ({"skipped": True}, State.SKIPPED),
        ({"passes": True, "skipped": True}, State.SKIPPED),
        ({}, State.WAITING),
    ],
)
def test_passes_and_skipped_tell_the_status(fields: dict[str, bool], status: State) -> None:
    assert read_one(**fields).status is status


@each_case(
    ("value", "priority"),
    [
        (0, Priority.CRITICAL),
        (2, Priority.NORMAL),
        (12, Priority.BACKGROUND),
        ("low", Priority.LOW),
    ],
)
def test_priorities_are_names_or_numbers(value: object, priority: Priority) -> None:
    assert read_one(priority=value).priority is priority


@each_case("value", ["none", ["none"]])
def test_files_none_claims_nothing(value: object) -> None:
    assert read_one(files=value).claims == ()


@each_case("value", [[], None])
def test_an_empty_list_of_files_says_nothing(value: object) -> None:
    assert read_one(files=value).claims == ("**",)


def test_a_manual_story_waits_for_a_person() -> None:
    assert read_one(title="Manual verification of the page").claims == ()
    assert read_one(agent="human").manual


def test_subtasks_are_named_after_their_story_and_come_before_it() -> None:
    text = prd(
        story(subtasks=[{"description": "one", "files": ["a"]}, {"id": "x", "description": "two"}])
    )
    by_id = tasks(text, "prd.json")
    assert list(by_id) == ["S.a", "S.x", "S"]
    assert [task.kind for task in by_id.values()] == [
        ItemKind.SUBTASK,
        ItemKind.SUBTASK,
        ItemKind.STORY,
    ]
    # A subtask that names no files may touch those of its story, which holds them all.
    assert by_id["S.x"].files == ("a.py",)
    assert by_id["S"].files == ("a.py", "a")


def test_a_subtask_names_a_sibling_in_full_or_in_short() -> None:
    text = prd(
        story(
            subtasks=[
                {"id": "a", "description": "one", "files": ["a"]},
                {"id": "S.b", "description": "two", "files": ["b"], "depends_on": ["a", "S.a"]},
            ]
        )
    )
    assert [each.to for each in tasks(text, "prd.json")["S.b"].depends] == ["S.a", "S.a"]


def test_subtasks_wait_for_what_one_of_them_needs_from_outside() -> None:
    """Else their story holds a file for which the task waits that the other subtask needs."""
    result = compiled(
        prd(
            story(
                files=[],
                subtasks=[
                    {"id": "a", "description": "one", "files": ["x"]},
                    {"id": "b", "description": "two", "files": ["y"], "depends_on": ["a", "T"]},
                ],
            ),
            {"id": "T", "title": "t", "files": ["x"]},
        ),
        "prd.json",
    )
    assert edges(result, EdgeReason.EXPLICIT) == {("S.a", "S.b"), ("T", "S.a"), ("T", "S.b")}


def test_what_overlaps_a_subtask_waits_for_the_whole_story() -> None:
    result = compiled(
        prd(
            story(files=[], subtasks=[{"description": "one", "files": ["a"]}]),
            {"id": "T", "title": "t", "files": ["a"]},
        ),
        "prd.json",
    )
    assert edges(result, EdgeReason.OVERLAP) == {("S", "T")}


def test_siblings_that_overlap_go_one_after_the_other() -> None:
    result = compiled(
        prd(story(subtasks=[{"description": "one"}, {"description": "two"}])), "prd.json"
    )
    assert edges(result, EdgeReason.OVERLAP) == {("S.a", "S.b")}


def test_a_story_that_passed_has_passed_with_all_its_parts() -> None:
    by_id = tasks(prd(story(passes=True, subtasks=[{"description": "one"}])), "prd.json")
    assert {task.status for task in by_id.values()} == {State.DONE}


@each_case(
    ("text", "code", "pointer"),
    [
        ("[]", "no-tasks", ""),
        ("{}", "bad-value", ""),
        ('{"stories": 3}', "bad-value", "/stories"),
        ('{"stories": []}', "no-tasks", "/stories"),
        (prd(3), "bad-value", "/stories/0"),
        (prd({"title": "no id"}), "bad-value", "/stories/0"),
        (prd({"id": "S"}), "empty-task", "/stories/0"),
        (prd(story(id=None)), "bad-value", "/stories/0/id"),
        (prd(story(title=3)), "bad-value", "/stories/0/title"),
        (prd(story(files="../x")), "bad-path", "/stories/0/files"),
        (prd(story(files=["ok", "/x"])), "bad-path", "/stories/0/files/1"),
        (prd(story(files={"a": 1})), "bad-value", "/stories/0/files"),
        (prd(story(passes="yes")), "bad-value", "/stories/0/passes"),
        (prd(story(priority="urgent")), "bad-value", "/stories/0/priority"),
        (prd(story(depends_on=["X-1"])), "unknown-task", "/stories/0/depends_on/0"),
        (prd(story(depends_on="X-1")), "bad-value", "/stories/0/depends_on"),
        (prd(story(subtasks=[{"id": "a"}])), "empty-task", "/stories/0/subtasks/0"),
        (prd(story(subtasks=[7])), "bad-value", "/stories/0/subtasks/0"),
        (prd(story(), story()), "duplicate-id", "/stories/1"),
        ('{"stories": [{"id": "S", "id": "S", "title": "t"}]}', "repeated-key", "/stories/0/id"),
    ],
)
def test_malformed_input_is_refused_whole_with_a_pointer(
    text: str, code: str, pointer: str
) -> None:
    parsed = reading(text, "prd.json")
    assert (code, pointer) in [(each.code, each.pointer) for each in errors(parsed.problems)]
    assert parsed.plan.tasks == ()


@each_case(
    ("text", "place"),
    [
        ("", (1, 1)),
        ('{"stories": [', (1, 14)),
        ('{"stories":\n [}', (2, 3)),
        ('{"stories": []} x', (1, 17)),
        ("{'stories': []}", (1, 2)),
        ('{"stories" []}', (1, 12)),
        ('{"a": NaN}', (1, 7)),
        ('{"a": "\n"}', (1, 8)),
        ('{"a": [1 2]}', (1, 10)),
        ('{"a": 1 "b": 2}', (1, 9)),
    ],
)
def test_text_that_is_no_json_is_refused_where_it_breaks(text: str, place: tuple[int, int]) -> None:
    problem = only(problems(text, "prd.json"), "not-json")
    assert (problem.line, problem.column) == place


def test_all_problems_are_reported_at_once() -> None:
    text = prd(story(files=["/x"]), story(id="T", passes=3), story(id="U", depends_on=["W"]))
    assert sorted(codes(errors(problems(text, "prd.json")))) == [
        "bad-path",
        "bad-value",
        "unknown-task",
    ]


def test_a_key_close_to_a_known_one_is_a_warning() -> None:
    problem = only(problems(prd(story(filles=["b"])), "prd.json"), "unknown-key")
    assert (problem.suggestion, problem.pointer) == ("Did you mean 'files'?", "/stories/0/filles")


def test_half_characters_become_whole_ones() -> None:
    (task,) = tasks(
        '{"stories": [{"id": "S", "title": "a \\ud800 b", "files": ["a"]}]}', "prd.json"
    ).values()
    assert task.text == "a � b"


def test_a_cycle_of_stories_is_found() -> None:
    text = prd(story(depends_on=["T"]), {"id": "T", "title": "t", "depends_on": ["S"]})
    assert "S (line 4)" in only(problems(text, "prd.json"), "cycle").message


def test_a_description_without_a_title_loses_no_line() -> None:
    data = {"stories": [{"id": "S", "files": ["f"], "description": "First line\nsecond\nthird"}]}
    [task] = read("prd.json", json.dumps(data).encode()).plan.tasks
    assert (task.text, task.details) == ("First line", "second\nthird")
