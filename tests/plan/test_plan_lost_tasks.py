"""No task vanishes: a line with a box is a task, detail of a task, or a problem with its line."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from cases import each_case
from plan.planning import codes, only, problems, reading
from weft import plan
from weft.plan.plan_records import Severity

BEFORE = "## Phase 1: a\n\n- [ ] Task 1: first\n  <!-- files: a -->\n\n"


@each_case(
    "line",
    [
        "- [ ]Task 2: glued",
        "-[ ] Task 2: no blank",
        "*[x] Task 2: no blank",
        "- [ ]* Task 2: optional",
        "☐ Task 2: a sign",
        "- ☐ Task 2: a sign",
        "• [ ] Task 2: another bullet",
        "1.[ ] Task 2: glued to its number",
        "[ ] Task 2: no bullet",
    ],
)
def test_a_line_that_can_only_be_a_task_is_an_error(line: str) -> None:
    problem = only(problems(f"{BEFORE}{line}\n"), "unread-task")
    assert (problem.severity, problem.line) == (Severity.ERROR, 6)
    assert problem.suggestion


@each_case(
    "line",
    [
        "> - [ ] Task 2: quoted",
        "| [ ] | Task 2 | in a table |",
        "- A group\n  - [ ] Task 2: nested under no task",
        "- [P] a letter",
        "<details>\n- [ ] Task 2: inside HTML",
    ],
)
def test_a_box_that_may_be_no_task_is_a_warning(line: str) -> None:
    reported = [each for each in problems(f"{BEFORE}{line}\n") if each.code == "unread-task"]
    assert [problem.severity for problem in reported]
    assert {problem.line for problem in reported} <= {6, 7}


@each_case("line", ["1) [ ] Task 2: b", "- [  ] Task 2: b", "- [] Task 2: b"])
def test_odd_boxes_that_are_clear_are_tasks(line: str) -> None:
    assert len(reading(f"{BEFORE}{line}\n").plan.tasks) == 2


def test_a_box_that_markdown_joins_to_the_task_above_is_an_error() -> None:
    problem = only(problems("- [ ] a <!-- files: a -->\n-[ ] b\n"), "unread-task")
    assert (problem.severity, problem.line) == (Severity.ERROR, 2)


def test_a_task_heading_among_boxes_is_a_warning() -> None:
    assert only(problems(f"{BEFORE}### Task 6: more\n"), "task-heading").line == 6


def test_a_footnote_a_link_and_code_are_no_boxes() -> None:
    text = (
        f"{BEFORE}- [1] a footnote\n- [a link](x)\n\n```\n- [ ]Task\n```\n\n<!--\n- [ ]Task\n-->\n"
    )
    assert codes(problems(text)) == []


@each_case("heading", ["Success criteria", "Acceptance Criteria:", "Definition of Done"])
def test_boxes_under_criteria_are_pointed_out(heading: str) -> None:
    assert only(problems(f"## {heading}\n- [ ] fast\n"), "criteria-heading").line == 1


def test_a_file_without_tasks_says_so() -> None:
    assert only(problems("# A title\n\n* no box\n"), "no-tasks").severity is Severity.ERROR


BOXES = st.sampled_from(
    ["- [ ] ", "-[ ] ", "- [ ]", "- [ ]* ", "* [x] ", "☐ ", "- ☐ ", "1. [ ] ", "1)[ ] ", "- [?] ",
     "- [~] ", "- [-] ", "- [!] ", "> - [ ] ", "| [ ] ", "[ ] ", "+ [] ", "• [ ] "]
)  # fmt: skip
OTHER = st.sampled_from(
    ["## Phase 1: a", "### Task 2: b", "prose", "", "- a plain item", "  indented", "<details>",
     "files: a.py", "---", "    code", "> quote", "# title"]
)  # fmt: skip
INDENT = st.sampled_from(["", " ", "  ", "    ", "      ", "\t"])


@st.composite
def documents(draw: st.DrawFn) -> list[str]:
    lines = []
    for place in range(draw(st.integers(1, 12))):
        if draw(st.booleans()):
            lines.append(f"{draw(INDENT)}{draw(BOXES)}box{place}")
        else:
            lines.append(draw(OTHER))
    return lines


@given(lines=documents())
def test_no_line_with_a_box_is_silently_ignored(lines: list[str]) -> None:
    parsed = plan.read("plan.md", "\n".join(lines).encode())
    told = {problem.line for problem in parsed.problems}
    kept = "\n".join(f"{task.text}\n{task.details}" for task in parsed.plan.tasks)
    for number, line in enumerate(lines, 1):
        if "box" in line:
            word = line[line.index("box") :]
            assert number in told or word in re.findall(r"box\d+", kept), (lines, line)
