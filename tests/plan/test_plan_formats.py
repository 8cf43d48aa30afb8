"""Formats found by content: spec-kit, Kiro, OpenSpec, superpowers and ralph's bare array."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import each_case
from plan.planning import codes, errors, needs
from weft import plan
from weft.model import State
from weft.plan.plan_records import ParsedPlan, ReaderOptions, Source
from weft.plan.writeback import Status, write_back

SPEC_KIT = """\
# Tasks: Photo albums

Prerequisites: plan.md

## Phase 1: Setup
- [ ] T001 Create the project structure in setup.py
- [ ] T002 [P] Configure linting in ruff.toml
- [ ] T003 [P] Configure types in mypy.ini

## Phase 2: User Story 1
- [x] T004 [P] [US1] Contract test in tests/test_album.py
- [ ] T005 [US1] Album model in src/album.py (depends on T002, T003)
"""
KIRO = """\
# Implementation Plan

- [ ] 1. Set up the project
  - [x] 1.1 Create the directories
    - with a README
    - _Requirements: 1.1, 1.2_
  - [-] 1.2 Write the parser
  - [ ]* 1.3 Write property tests
- [ ] 2. Document it
"""
OPENSPEC = """\
## 1. Implementation
- [x] 1.1 Create the table
- [ ] 1.2 Implement the endpoint

## 2. Docs
- [ ] 2.1 Write the page
"""
SUPERPOWERS = """\
# Parser Implementation Plan

**Goal:** Read plans.

### Task 1: The lexer

**Files:**
- Create: `src/lexer.py`
- Modify: `src/main.py:12-40`
- Test: `tests/test_lexer.py`

- [ ] **Step 1: Write the failing test**

```python
- [ ] not a step
```

- [x] **Step 2: Run it**

### Task 2: The parser

**Files:**
- Create: `src/parser.py`

- [x] **Step 1: Write it**
"""
EXAMPLES = {
    Source.SPEC_KIT: SPEC_KIT,
    Source.KIRO: KIRO,
    Source.OPENSPEC: OPENSPEC,
    Source.SUPERPOWERS: SUPERPOWERS,
    Source.MARKDOWN: "## Phase 1: a\n- [ ] Task 1: x\n- [ ] 2 apples\n",
}


def read(text: str, **options: object) -> ParsedPlan:
    return plan.read("tasks.md", text.encode(), ReaderOptions(**options))  # type: ignore[arg-type]


@each_case("kind", EXAMPLES)
def test_a_format_is_found_by_its_content(kind: Source) -> None:
    assert plan.detect("tasks.md", EXAMPLES[kind].encode()) is kind
    assert plan.detect("tasks.md", EXAMPLES[kind].replace("\n", "\r\n").encode()) is kind
    assert read(EXAMPLES[kind]).plan.source is kind


@each_case(
    ("kind", "tasks"),
    [
        (
            Source.SPEC_KIT,
            [
                ("T001", State.WAITING, None),
                ("T002", State.WAITING, None),
                ("T003", State.WAITING, None),
                ("T004", State.DONE, ("tests/test_album.py",)),
                ("T005", State.WAITING, ("src/album.py",)),
            ],
        ),
        (
            Source.KIRO,
            [
                ("1.1", State.DONE, None),
                ("1.2", State.RUNNING, None),
                ("1.3", State.SKIPPED, None),
                ("2", State.WAITING, None),
            ],
        ),
        (
            Source.OPENSPEC,
            [
                ("1.1", State.DONE, None),
                ("1.2", State.WAITING, None),
                ("2.1", State.WAITING, None),
            ],
        ),
        (
            Source.SUPERPOWERS,
            [
                ("1", State.RUNNING, ("src/lexer.py", "src/main.py", "tests/test_lexer.py")),
                ("2", State.DONE, ("src/parser.py",)),
            ],
        ),
    ],
)
def test_ids_states_and_files_are_those_of_the_format(
    kind: Source, tasks: list[tuple[str, State, tuple[str, ...] | None]]
) -> None:
    parsed = read(EXAMPLES[kind])
    assert [(task.id, task.status, task.files) for task in parsed.plan.tasks] == tasks


def test_only_neighbours_marked_p_of_spec_kit_run_together() -> None:
    pairs = needs(plan.compile(read(SPEC_KIT).plan))
    assert {("T001", "T002"), ("T001", "T003"), ("T002", "T005"), ("T004", "T005")} <= pairs
    assert ("T002", "T003") not in pairs


def test_p_without_files_is_not_believed() -> None:
    assert "parallel-without-files" in codes(read(SPEC_KIT).problems)


def test_kiro_runs_in_order_and_leaves_optional_work_out() -> None:
    assert ("1.2", "1.3") in needs(plan.compile(read(KIRO).plan))
    assert "optional-task" in codes(read(KIRO).problems)
    taken = read(KIRO, take=frozenset({"1.3"})).plan
    assert [task.status for task in taken.tasks if task.id == "1.3"] == [State.WAITING]
    assert "_Requirements: 1.1, 1.2_" in taken.tasks[0].details


def test_a_named_format_overrides_the_content() -> None:
    forced = read(OPENSPEC, format=Source.MARKDOWN).plan
    assert forced.source is Source.MARKDOWN
    assert forced.tasks[1].text == "1.2 Implement the endpoint"


@each_case("end", ["\n", "\r\n"])
@each_case(
    ("kind", "task", "changes"),
    [
        (Source.SPEC_KIT, "T001", [("- [ ] T001", "- [x] T001")]),
        (Source.KIRO, "2", [("- [ ] 2.", "- [x] 2.")]),
        (Source.KIRO, "1.2", [("- [-] 1.2", "- [x] 1.2")]),
        (Source.OPENSPEC, "1.2", [("- [ ] 1.2", "- [x] 1.2")]),
        (Source.SUPERPOWERS, "1", [("- [ ] **Step 1: Write the f", "- [x] **Step 1: Write the f")]),
    ],
)
def test_writing_a_mark_changes_no_other_byte(
    kind: Source, task: str, changes: list[tuple[str, str]], end: str
) -> None:
    before = EXAMPLES[kind].replace("\n", end)
    after = before
    for old, new in changes:
        after = after.replace(old, new)
    marked = write_back(before.encode(), read(before).plan, {task: Status(state=State.DONE)})
    assert (marked.data.decode(), marked.gone) == (after, ())


@each_case(
    ("kind", "task", "state", "line"),
    [
        (Source.KIRO, "2", State.RUNNING, "- [-] 2. Document it"),
        (Source.KIRO, "2", State.GATING, "- [-] 2. Document it"),
        (Source.KIRO, "1.2", State.FAILED, "  - [ ] 1.2 Write the parser"),
        (Source.KIRO, "1.3", State.SKIPPED, "  - [ ]* 1.3 Write property tests"),
        (Source.SPEC_KIT, "T001", State.RUNNING, "- [ ] T001 Create"),
        (Source.OPENSPEC, "1.1", State.READY, "- [ ] 1.1 Create the table"),
        (Source.SUPERPOWERS, "1", State.RUNNING, "- [ ] **Step 1: Write the failing test**"),
    ],
)
def test_each_state_has_the_mark_that_the_format_has_for_it(
    kind: Source, task: str, state: State, line: str
) -> None:
    parsed = read(EXAMPLES[kind]).plan
    marked = write_back(EXAMPLES[kind].encode(), parsed, {task: Status(state=state)})
    assert f"\n{line}" in marked.data.decode()


def test_a_group_of_kiro_is_done_with_its_parts() -> None:
    parsed = read(KIRO, take=frozenset({"1.3"})).plan
    done = {id: Status(state=State.DONE) for id in ("1.2", "1.3")}
    assert b"- [x] 1. Set up" in write_back(KIRO.encode(), parsed, done).data


@each_case("kind", [each for each in EXAMPLES if each is not Source.MARKDOWN])
def test_the_present_states_written_back_change_nothing(kind: Source) -> None:
    parsed = read(EXAMPLES[kind]).plan
    same = {task.id: Status(state=task.status) for task in parsed.tasks}
    assert write_back(EXAMPLES[kind].encode(), parsed, same).data == EXAMPLES[kind].encode()


LINES = st.sampled_from(
    ["## 1. A", "## Phase 1: x", "- [ ] T001 box", "- [ ] 1.1 box", "  - [ ] 1.2 box",
     "- [ ]* 2 box", "- [ ] box", "-[ ] box", "  - [ ] box", "prose", "", "- [x] T002 [P] box",
     "- [?] 3 box", "1. [ ] T003 box", "1) [ ] 4 box", "☐ T004 box", "> - [ ] 5 box", "| [ ] 6 box",
     "  1. [ ] 1.3 box", "  ☐ box", "- [] 7 box", "  -[ ] T005 box", "### Task 1: x", "**Files:**"]
)  # fmt: skip


@pytest.mark.parametrize(
    "kind", [Source.SPEC_KIT, Source.KIRO, Source.OPENSPEC, Source.SUPERPOWERS]
)
@given(lines=st.lists(LINES, max_size=12))
def test_no_box_of_a_format_is_silently_ignored(kind: Source, lines: list[str]) -> None:
    lines = [line.replace("box", f"box{place}") for place, line in enumerate(lines)]
    parsed = read("\n".join(lines), format=kind)
    told = {problem.line for problem in parsed.problems}
    kept = "\n".join(f"{task.text}\n{task.details}" for task in parsed.plan.tasks).split()
    refused = bool(errors(parsed.problems))  # nothing of it runs
    for number, line in enumerate(lines, 1):
        if "box" in line:
            assert refused or number in told or line.split()[-1] in kept, (lines, line)


@each_case(
    ("text", "status"),
    [
        ("- [x] a\n- [x] b", State.DONE),
        ("- [x] a\n-[ ] b", State.RUNNING),
        ("- [x] a\n1. [ ] b", State.RUNNING),
        ("- [x] a\n☐ b", State.RUNNING),
        ("- [x] a\n```\n-[ ] b\n```", State.DONE),
        ("- [ ] a\n-[ ] b", State.WAITING),
        ("no steps", State.WAITING),
    ],
)
def test_a_superpowers_task_with_an_odd_box_is_not_done(text: str, status: State) -> None:
    parsed = read(f"### Task 1: A\n\n**Files:**\n- Create: `a.py`\n\n{text}\n")
    assert parsed.plan.tasks[0].status is status
    odd = any(box in text.partition("```")[0] for box in ("-[ ]", "1. [ ]", "☐"))
    assert codes(parsed.problems) == ["unread-task"] * odd


@each_case(
    ("text", "kind"),
    [
        (f"{SUPERPOWERS}\n{SPEC_KIT}", Source.SUPERPOWERS),
        (f"{SPEC_KIT}\n{OPENSPEC}", Source.SPEC_KIT),
        (f"{OPENSPEC}\n  - [ ]* 1.3 a\n", Source.OPENSPEC),
        (f"{OPENSPEC}\n- [ ] 7.1 a\n  - [ ] 7.2 b\n", Source.KIRO),
        ("```\n- [ ] T001 x\n```\n- [ ] a\n", Source.MARKDOWN),
        ("### Task 1: A\n- [ ] a\n", Source.MARKDOWN),
        ("- [ ] 1 apple\n", Source.MARKDOWN),
    ],
)
def test_of_several_formats_the_first_in_the_documented_order_is_taken(
    text: str, kind: Source
) -> None:
    assert plan.detect("tasks.md", text.encode()) is kind


@each_case(
    ("name", "text", "code", "words"),
    [
        ("a.json", '{"features": []}', "bad-value", "no list of stories"),
        ("a.json", '{"tasks": {"a": 1}}', "bad-value", "a list is expected"),
        ("a.json", "", "not-json", ""),
        ("a.jsonl", "[1, 2]", "bad-value", "one JSON object"),
        ("tasks.md", "- [ ] T001 a\n- [ ] T001 b\n", "duplicate-id", "T001"),
        ("tasks.md", "- [ ] T001 a (depends on T009)\n", "unknown-task", "T009"),
        ("tasks.md", "- [ ] T001 a\n- [ ] b\n", "unread-task", "'- [ ] b'"),
        ("tasks.md", "- [ ] T001 a\n- [%] T002 b\n", "unknown-mark", "[%]"),
        ("tasks.md", "- [ ] 1. a\n  - [ ] 1.1 b\n- [ ] c\n", "unread-task", "'- [ ] c'"),
    ],
)
def test_a_file_that_looks_like_a_format_and_cannot_be_read_is_refused_with_the_reason(
    name: str, text: str, code: str, words: str
) -> None:
    refused = errors(plan.read(name, text.encode()).problems)
    assert [problem.code for problem in refused] == [code]
    assert words in refused[0].message
    assert refused[0].suggestion


def test_a_bare_array_of_stories_is_a_prd() -> None:
    parsed = plan.read("prd.json", b'[{"id": "S-1", "title": "a", "files": ["a.py"]}]')
    assert [task.id for task in parsed.plan.tasks] == ["S-1"]
    assert parsed.problems == ()
