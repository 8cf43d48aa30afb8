"""Spellings that people use: bullets, boxes, numbers, line ends, indentation, code."""

from __future__ import annotations

from cases import each_case
from plan.planning import codes, compiled, edges, only, problems, reading, tasks
from weft import plan
from weft.model import State
from weft.plan.plan_records import EdgeReason


@each_case("bullet", ["-", "*", "+", "1.", "1)", "-\t", "  -", "12."])
def test_any_bullet_makes_a_task(bullet: str) -> None:
    parsed = reading(f"## Phase 1: a\n\n{bullet} [ ] Task 1: do it\n")
    assert [(task.id, task.text) for task in parsed.plan.tasks] == [("1.1", "do it")]


@each_case(
    ("mark", "status"),
    [
        (" ", State.WAITING),
        ("~", State.RUNNING),
        ("x", State.DONE),
        ("X", State.DONE),
        ("!", State.BLOCKED),
        ("-", State.SKIPPED),
    ],
)
def test_the_mark_tells_the_status(mark: str, status: State) -> None:
    (task,) = tasks(f"- [{mark}] a\n").values()
    assert task.status is status


@each_case(
    ("line", "status", "text", "commit", "note"),
    [
        ("[x] Login page 9f8e7d6", State.DONE, "Login page", "9f8e7d6", ""),
        ("[x] Login page (9f8e7d6)", State.DONE, "Login page", "9f8e7d6", ""),
        ("[x] Login page [9f8e7d6]", State.DONE, "Login page", "9f8e7d6", ""),
        ("[x] Login page `9f8e7d6`", State.DONE, "Login page", "9f8e7d6", ""),
        ("[x] Login page " + "a1" * 20, State.DONE, "Login page", "a1" * 20, ""),
        ("[x] It was defaced", State.DONE, "It was defaced", None, ""),
        ("[ ] Revert 9f8e7d6", State.WAITING, "Revert 9f8e7d6", None, ""),
        ("[x] Login page (SKIPPED)", State.SKIPPED, "Login page", None, ""),
        ("[x] Login 9f8e7d6 (SKIPPED)", State.SKIPPED, "Login", "9f8e7d6", ""),
        ("[!] Login [BLOCKED: no key]", State.BLOCKED, "Login", None, "no key"),
        ("[!] Login", State.BLOCKED, "Login", None, ""),
        ("[x] 9f8e7d6", State.DONE, "9f8e7d6", None, ""),
    ],
)
def test_commit_ids_and_notes_are_taken_off_the_text(
    line: str, status: State, text: str, commit: str | None, note: str
) -> None:
    (task,) = tasks(f"- {line}\n").values()
    assert (task.status, task.text, task.commit, task.note) == (status, text, commit, note)


@each_case(
    "line",
    [
        "Task 3: do it",
        "Task 3 - do it",
        "Task 3. do it",
        "Task 03: do it",
        "task 3: do it",
        "Task #3: do it",
        "**Task 3:** do it",
        "**Task 3**: do it",
        "__Task 3__ - do it",
        "*Task 3: do it*",
        "**Task 3: do it**",
        "Task 1.3: do it",
    ],
)
def test_the_number_of_a_task_is_found(line: str) -> None:
    (task,) = reading(f"## Phase 1: a\n- [ ] {line}\n").plan.tasks
    assert (task.label, task.text) == ("3", "do it")


@each_case("line", ["do it", "Task: do it", "**Task:** do it"])
def test_a_task_without_a_number_is_read_too(line: str) -> None:
    (task,) = reading(f"## Phase 1: a\n- [ ] {line}\n").plan.tasks
    assert (task.label, task.text) == ("1", "do it")


@each_case(
    ("heading", "label", "title"),
    [
        ("## Phase 4: Setup", "4", "Setup"),
        ("## Phase 4 - Setup", "4", "Setup"),
        ("## Phase 4", "4", ""),
        ("## **Phase 4: Setup**", "4", "Setup"),
        ("## [x] Phase 4: Setup", "4", "Setup"),
        ("## Phase 4: Setup ##", "4", "Setup"),
        ("## Phase 4: Setup [checkpoint: 1a2b3c4]", "4", "Setup"),
        ("## Setup", "1", "Setup"),
    ],
)
def test_headings_of_phases(heading: str, label: str, title: str) -> None:
    (phase,) = reading(f"{heading}\n- [ ] a\n").plan.phases
    assert (phase.label, phase.title) == (label, title)


def test_the_checkpoint_of_a_phase_is_read() -> None:
    (phase,) = reading("## Phase 1: Setup [checkpoint: 1a2b3c4]\n- [ ] a\n").plan.phases
    assert phase.checkpoint == "1a2b3c4"


@each_case("level", ["#", "###"])
def test_a_phase_at_another_level_is_read_with_a_warning(level: str) -> None:
    text = f"{level} Phase 1: a\n- [ ] a\n  <!-- files: a -->\n{level} Phase 2: b\n- [ ] b\n"
    assert [phase.label for phase in reading(text).plan.phases] == ["1", "2"]
    assert codes(problems(text)).count("phase-heading") == 2


def test_a_heading_inside_a_phase_does_not_end_it() -> None:
    parsed = reading("## Phase 1: a\n\n### Tasks\n\n- [ ] a\n\n### Notes\n\n- [ ] b\n")
    assert [task.id for task in parsed.plan.tasks] == ["1.1", "1.2"]


def test_tasks_before_any_heading_are_a_phase_of_their_own() -> None:
    parsed = reading("# The plan\n\n- [ ] a\n- [ ] b\n")
    assert parsed.plan.title == "The plan"
    assert [task.id for task in parsed.plan.tasks] == ["1.1", "1.2"]


@each_case("end", ["\n", "\r\n", "\r"])
@each_case("bom", [b"", b"\xef\xbb\xbf"])
def test_line_ends_and_a_bom_make_no_difference(end: str, bom: bytes) -> None:
    text = "## Phase 1: a\n<!-- execution: parallel -->\n- [ ] a\n  <!-- files: a -->\n"
    parsed = plan.read("plan.md", bom + text.replace("\n", end).encode())
    assert parsed.problems == ()
    assert parsed.plan.phases[0].parallel
    assert parsed.plan.tasks[0].files == ("a",)


def test_tabs_indent_as_well_as_blanks() -> None:
    parsed = reading("## Phase 1: a\n-\t[ ] Task 1: a\n\t<!-- files: a -->\n\t- [ ] sub\n")
    (task,) = parsed.plan.tasks
    assert task.files == ("a",)
    assert task.details == "- [ ] sub"
    assert parsed.problems == ()


def test_nothing_inside_a_code_fence_counts() -> None:
    parsed = reading(
        """
        ## Phase 1: a
        ```markdown
        ## Phase 2: b
        - [ ] Task 9: no
        <!-- execution: parallel -->
        ```
        - [ ] Task 1: a
          <!-- files: a -->
          ~~~
          <!-- files: b -->
          ~~~
        """
    )
    assert [(task.id, task.files) for task in parsed.plan.tasks] == [("1.1", ("a",))]
    assert not parsed.plan.phases[0].parallel


def test_a_comment_in_a_code_span_is_an_example() -> None:
    (task,) = tasks("- [ ] Read `<!-- files: b -->` <!-- files: a -->\n").values()
    assert task.files == ("a",)
    assert task.text == "Read `<!-- files: b -->`"


def test_annotations_may_stand_behind_the_text() -> None:
    result = compiled(
        """
        ## Phase 1: a <!-- execution: parallel -->
        - [ ] Task 1: a <!-- files: a -->
        - [ ] Task 2: b <!-- files: b --> <!-- depends: task1 -->
        """
    )
    assert edges(result) == edges(result, EdgeReason.EXPLICIT) == {("1.1", "1.2")}
    assert [task.text for task in result.plan.tasks] == ["a", "b"]


def test_a_comment_with_no_known_key_is_prose() -> None:
    text = (
        "## Phase 1: a\n<!-- Note: see the wiki -->\n<!-- (free text) -->\n- [ ] a <!-- TODO -->\n"
    )
    assert codes(problems(text)) == ["no-files"]
    assert reading(text).plan.tasks[0].text == "a"


def test_text_may_go_on_in_the_next_line() -> None:
    (task,) = tasks(
        "- [x] Task 1: Create the\n  auth module 9f8e7d6\n  <!-- files: a -->\n"
    ).values()
    assert (task.text, task.commit, task.last_line) == ("Create the auth module", "9f8e7d6", 2)


def test_prose_that_is_not_indented_is_no_part_of_the_text() -> None:
    (task,) = tasks("- [ ] Task 1: Create it\nAnd here is why.\n").values()
    assert (task.text, task.details) == ("Create it", "And here is why.")


def test_sub_bullets_are_details_of_their_task() -> None:
    parsed = reading(
        """
        - [ ] Task 1: a
          <!-- files: a -->
          - [ ] first
            - deeper
          - [x] second

          A paragraph.
        - [ ] Task 2: b
        """
    )
    assert len(parsed.plan.tasks) == 2
    assert parsed.plan.tasks[0].details == ("- [ ] first\n  - deeper\n- [x] second\n\nA paragraph.")


def test_an_annotation_that_is_not_indented_goes_to_the_task_above_with_a_warning() -> None:
    parsed = reading("- [ ] a\n<!-- files: a -->\n- [ ] b\n<!-- files: b -->\n")
    assert [task.files for task in parsed.plan.tasks] == [("a",), ("b",)]
    assert codes(parsed.problems) == ["not-indented", "not-indented"]


def test_a_bullet_without_a_mark_is_prose_but_suspicious_if_it_is_numbered() -> None:
    reported = problems("- [ ] a <!-- files: a -->\n- Task 2: b\n- just a note\n")
    assert codes(reported) == ["missing-mark"]


def test_an_unknown_mark_is_an_error() -> None:
    problem = only(problems("- [?] Task 1: a\n"), "unknown-mark")
    assert (problem.line, problem.column) == (1, 4)


def test_footnotes_and_links_are_no_tasks() -> None:
    parsed = reading("- [ ] a\n- [1] a footnote\n- [a link](https://example.com)\n")
    assert len(parsed.plan.tasks) == 1


def test_a_task_that_is_indented_like_code_is_a_warning() -> None:
    assert "indented-task" in codes(problems("## Phase 1: a\n\n    - [ ] Task 1: a\n"))


def test_an_open_fence_and_an_open_comment_are_reported() -> None:
    assert "unclosed-fence" in codes(problems("- [ ] a\n\n```\n- [ ] b\n"))
    assert "unclosed-comment" in codes(problems("- [ ] a\n\n<!-- files: a\n\n- [ ] b\n"))


def test_lists_nested_beyond_reason_are_not_searched_and_that_is_said() -> None:
    nested = "".join(f"{'  ' * depth}- [ ] x\n" for depth in range(12))
    assert "too-deep" in codes(problems(nested))


def test_quotes_are_prose() -> None:
    parsed = reading("## Phase 1: a\n> - [ ] no\n> <!-- execution: parallel -->\n\n- [ ] yes\n")
    assert [task.text for task in parsed.plan.tasks] == ["yes"]
    assert not parsed.plan.phases[0].parallel


def test_front_matter_and_rules_are_prose() -> None:
    parsed = reading("---\ntitle: x\n---\n\n## Phase 1: a\n- [ ] a\n---\n- [ ] b\n\n***\n")
    assert [(task.id, task.text) for task in parsed.plan.tasks] == [("1.1", "a"), ("1.2", "b")]


def test_text_that_is_not_utf8_is_read_with_a_warning() -> None:
    parsed = plan.read("plan.md", b"- [ ] caf\xe9 <!-- files: a -->\n")
    assert parsed.plan.tasks[0].text == "caf�"
    problem = only(parsed.problems, "not-utf8")
    assert (problem.line, problem.column) == (1, 10)


def test_a_file_without_tasks_is_an_error() -> None:
    assert codes(problems("# Nothing here\n")) == ["no-tasks"]
    assert codes(problems("")) == ["no-tasks"]
