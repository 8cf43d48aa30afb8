"""Annotations as plain lines, phases named by letters, and titles."""

from __future__ import annotations

from cases import each_case
from plan.planning import codes, compiled, needs, only, problems, reading, tasks
from weft.formats import first_sentence


@each_case(
    "written",
    [
        "  files: src/a.py, src/b.py",
        "  - files: src/a.py, src/b.py",
        "\n  files: src/a.py, src/b.py",
        "files: src/a.py, src/b.py",
        "  **Files:** `src/a.py`, `src/b.py`",
        "  - Files: src/a.py, src/b.py",
        "  writes: src/a.py, src/b.py",
    ],
)
def test_plain_files_under_a_task_are_its_files(written: str) -> None:
    task = tasks(f"- [ ] Task 1: a\n{written}\n")["1.1"]
    assert (task.text, task.files, task.details) == ("a", ("src/a.py", "src/b.py"), "")


def test_plain_needs_and_checks_are_read() -> None:
    text = (
        "## Phase 1: a\n<!-- execution: parallel -->\n"
        "- [ ] Task 1: a\n  files: a\n"
        "- [ ] Task 2: b\n  more of it\n  files: b\n  depends: task1\n  check: make test; true\n"
        "- [ ] Task 3: c\n  files: c\n  Depends on: Task 1, 1.2\n"
    )
    result = compiled(text)
    assert needs(result) == {("1.1", "1.2"), ("1.1", "1.3"), ("1.2", "1.3")}
    assert result.plan.tasks[1].check == "make test; true"
    assert result.plan.tasks[1].text == "b more of it"


@each_case(
    "line",
    [
        "files: the parser and its tests",
        "Depends on: the design being agreed upon",
        "Check: the page still renders",
        "priority: high",
        "files:",
    ],
)
def test_a_plain_line_that_is_no_annotation_is_named(line: str) -> None:
    problem = only(problems(f"- [ ] Task 1: a <!-- reads: a -->\n  {line}\n"), "plain-key")
    assert (problem.line, problem.column) == (2, 3)


def test_a_plain_line_between_tasks_is_named() -> None:
    assert "plain-key" in codes(problems("- [ ] a <!-- files: a -->\n\nfiles: b\n"))


def test_the_place_of_a_bad_plain_value_is_its_own() -> None:
    problem = only(problems("- [ ] a\n  files: b, ../c\n"), "bad-path")
    assert (problem.line, problem.column) == (2, 13)


def test_letters_name_phases() -> None:
    text = (
        "## Phase A: one\n- [ ] Task 1: a <!-- files: a -->\n"
        "## Phase B: two\n<!-- depends: -->\n- [ ] Task 1: b <!-- files: b -->\n"
        "## Phase C\n<!-- depends: phaseA -->\n- [ ] Task 1: c <!-- files: c; depends: B.1 -->\n"
    )
    result = compiled(text)
    assert [phase.label for phase in result.plan.phases] == ["A", "B", "C"]
    assert [phase.title for phase in result.plan.phases] == ["one", "two", ""]
    assert needs(result) == {("A.1", "C.1"), ("B.1", "C.1")}


def test_a_phase_without_a_name_beside_letters_takes_its_place() -> None:
    parsed = reading("## Phase A: x\n- [ ] a\n## Other\n- [ ] b\n")
    assert [phase.label for phase in parsed.plan.phases] == ["A", "2"]


@each_case(
    ("text", "title"),
    [
        ("Add a parser", "Add a parser"),
        ("Add a parser.", "Add a parser."),
        ("Add a parser. It reads plans.", "Add a parser"),
        ("Use e.g. Redis. Then stop.", "Use e.g. Redis"),
        ("Bump to 2.0 and test", "Bump to 2.0 and test"),
        ("Why? Because.", "Why?"),
        ("\n\nfirst line\nsecond", "first line"),
        ("word " * 30, "word " * 15 + "word…"),
        ("x" * 100, "x" * 79 + "…"),
    ],
)
def test_a_title_is_the_first_sentence_of_at_most_80_characters(text: str, title: str) -> None:
    assert first_sentence(text) == title
    assert len(title) <= 80
