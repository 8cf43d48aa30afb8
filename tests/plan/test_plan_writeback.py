"""Write-back: the bytes that change, the bytes that stay, and files that were edited meanwhile."""

from __future__ import annotations

import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import each_case
from plan.planning import reading
from weft import plan
from weft.errors import InputError
from weft.model import State
from weft.plan.writeback import MarkedPlan, Status, write_back


def written(before: str, state: State, commit: str | None = None, note: str = "") -> str:
    """The text with another status for its first task."""
    data = before.encode()
    parsed = plan.read("plan.md", data).plan
    status = Status(state=state, commit=commit, note=note)
    return write_back(data, parsed, {parsed.tasks[0].id: status}).data.decode()


@each_case(
    ("before", "state", "commit", "note", "after"),
    [
        ("- [ ] a", State.RUNNING, None, "", "- [~] a"),
        ("- [~] a", State.DONE, "9f8e7d6", "", "- [x] a 9f8e7d6"),
        ("- [~] a", State.DONE, None, "", "- [x] a"),
        ("- [x] a 9f8e7d6", State.DONE, None, "", "- [x] a 9f8e7d6"),
        ("- [x] a 9f8e7d6", State.DONE, "1234567", "", "- [x] a 1234567"),
        ("- [X] a [9f8e7d6]", State.DONE, "9f8e7d6", "", "- [X] a [9f8e7d6]"),
        ("- [x] a 9f8e7d6", State.READY, None, "", "- [ ] a"),
        ("- [ ] a", State.BLOCKED, None, "why", "- [!] a [BLOCKED: why]"),
        ("- [!] a [BLOCKED: why]", State.BLOCKED, None, "why", "- [!] a [BLOCKED: why]"),
        ("- [!] a [BLOCKED: why]", State.FAILED, None, "new", "- [!] a [BLOCKED: new]"),
        ("- [!] a [BLOCKED: why]", State.DONE, "9f8e7d6", "", "- [x] a 9f8e7d6"),
        ("- [!] a [BLOCKED: why]", State.RUNNING, None, "", "- [~] a"),
        ("- [ ] a", State.CANCELLED, None, "", "- [ ] a"),
        ("- [ ] a", State.SKIPPED, None, "", "- [-] a"),
        ("- [x] a (SKIPPED)", State.SKIPPED, None, "", "- [x] a (SKIPPED)"),
        ("- [x] a (SKIPPED)", State.DONE, "9f8e7d6", "", "- [x] a 9f8e7d6"),
        ("- [~] a", State.GATING, None, "", "- [~] a"),
        ("- [] a", State.RUNNING, None, "", "- [~] a"),
        (
            "- [ ] a <!-- files: a -->",
            State.DONE,
            "9f8e7d6",
            "",
            "- [x] a 9f8e7d6 <!-- files: a -->",
        ),
        ("- [ ] a\n  b", State.DONE, "9f8e7d6", "", "- [x] a\n  b 9f8e7d6"),
        ("- [x] a\n  9f8e7d6", State.DONE, "1234567", "", "- [x] a\n  1234567"),
        ("- [ ] a\nprose", State.DONE, "9f8e7d6", "", "- [x] a 9f8e7d6\nprose"),
        ("- [ ] Revert 9f8e7d6", State.DONE, "1234567", "", "- [x] Revert 9f8e7d6 1234567"),
        ("- [ ] a 9f8e7d6a1", State.DONE, "1234567", "", "- [x] a 1234567"),
        ("- [ ] a 9f8e7d6a1", State.RUNNING, None, "", "- [~] a"),
        ("- [ ] a 9f8e7d6a1", State.READY, None, "", "- [ ] a 9f8e7d6a1"),
        ("- [ ] Revert 9f8e7d6a1", State.DONE, "1234567", "", "- [x] Revert 9f8e7d6a1 1234567"),
        ("- [ ] a", State.DONE, "abcdefa", "", "- [x] a (abcdefa)"),
        ("- [ ] a \t", State.DONE, "9f8e7d6", "", "- [x] a 9f8e7d6 \t"),
    ],
)
def test_mark_commit_and_note_are_written(
    before: str, state: State, commit: str | None, note: str, after: str
) -> None:
    assert written(before + "\n", state, commit, note) == after + "\n"


@each_case(
    ("line", "text"),
    [
        ("- [ ] Task 1.1: Add a 9f8e7d6a1", "Add a"),
        ("- [ ] Add a 9f8e7d6a1 <!-- files: a -->", "Add a"),
        ("- [ ] Revert commit 9f8e7d6a1", "Revert commit 9f8e7d6a1"),
        ("- [ ] Port the fix of 9f8e7d6a1", "Port the fix of 9f8e7d6a1"),
        ("- [ ] Ship order 123456789", "Ship order 123456789"),
        ("- [ ] Add a 9f8e7d6", "Add a 9f8e7d6"),
        ("- [ ] 9f8e7d6a1", "9f8e7d6a1"),
        ("- [ ] Task 1: 9f8e7d6a1", "9f8e7d6a1"),
    ],
)
def test_the_commit_behind_a_box_that_was_opened_again_is_no_part_of_the_title(
    line: str, text: str
) -> None:
    [task] = reading(line).plan.tasks
    assert (task.text, task.status, task.commit) == (text, State.WAITING, None)


def test_what_was_written_is_read_again() -> None:
    text = written("- [ ] a\n", State.DONE, "abcdefa")
    (task,) = reading(text).plan.tasks
    assert (task.status, task.commit, task.text) == (State.DONE, "abcdefa", "a")


@each_case(
    "note",
    [
        "two\nlines",
        "a ] b",
        "<!-- files: / -->",
        "`tick",
        "\x00\x1b[31m",
        "x" * 5000,
        "\ud800",
        "]",
    ],
)
def test_a_note_cannot_break_the_plan(note: str) -> None:
    text = written("- [ ] a\n  <!-- files: a -->\n- [ ] b\n", State.BLOCKED, note=note)
    first, second = reading(text).plan.tasks
    assert (first.text, first.status, first.files) == ("a", State.BLOCKED, ("a",))
    assert (second.text, second.status) == ("b", State.WAITING)
    assert len(text.splitlines()[0]) < 300


def test_a_commit_id_must_be_one() -> None:
    with pytest.raises(InputError):
        written("- [ ] a\n", State.DONE, "HEAD -->")


HEADINGS = [
    ("## Phase 1: a", "## Phase 1: a [checkpoint: 1a2b3c4]"),
    ("## Phase 1: a  ", "## Phase 1: a [checkpoint: 1a2b3c4]  "),
    ("## Phase 1: a ##", "## Phase 1: a [checkpoint: 1a2b3c4] ##"),
    ("## Phase 1: C#", "## Phase 1: C# [checkpoint: 1a2b3c4]"),
    ("## Phase 1: a <!-- x -->", "## Phase 1: a [checkpoint: 1a2b3c4] <!-- x -->"),
    ("## Phase 1: a [checkpoint: ]", "## Phase 1: a [checkpoint: 1a2b3c4]"),
    ("## Phase 1: a [checkpoint: 0000000]", "## Phase 1: a [checkpoint: 1a2b3c4]"),
]


@each_case(("before", "after"), HEADINGS)
def test_a_phase_that_is_complete_gets_its_checkpoint(before: str, after: str) -> None:
    data = f"{before}\n- [x] Task 1: a\n- [~] Task 2: b\n".encode()
    statuses = {"1.2": Status(state=State.SKIPPED)}
    marked = write_back(data, plan.read("plan.md", data).plan, statuses, trunk="1a2b3c4")
    assert marked.data.decode() == f"{after}\n- [x] Task 1: a\n- [-] Task 2: b\n"


def test_a_phase_that_was_complete_keeps_its_checkpoint() -> None:
    data = b"## Phase 1: a [checkpoint: 1234567]\n- [x] a\n## Phase 2: b\n- [ ] b\n"
    parsed = plan.read("plan.md", data).plan
    assert write_back(data, parsed, {"2.1": Status(state=State.RUNNING)}, trunk="1a2b3c4").data == (
        data.replace(b"[ ] b", b"[~] b")
    )


def test_a_phase_without_a_heading_gets_none() -> None:
    data = b"- [ ] a\n"
    parsed = plan.read("plan.md", data).plan
    done = write_back(data, parsed, {"1.1": Status(state=State.DONE)}, trunk="1a2b3c4")
    assert done.data == b"- [x] a\n"


ORIGINAL = """## Phase 1: a
- [ ] Task 1: Create the parser
- [ ] Task 2: Create the printer
- [ ] Write the tests
## Phase 2: b
- [ ] Write the tests
- [ ] Named
  <!-- id: named -->
"""


def after_edit(edited: str, *ids: str) -> MarkedPlan:
    parsed = plan.read("plan.md", ORIGINAL.encode()).plan
    done = {id: Status(state=State.DONE) for id in ids}
    return write_back(edited.encode(), parsed, done)


@each_case(
    ("change", "to", "id", "line"),
    [
        # A task was inserted before it.
        ("- [ ] Write", "- [ ] New\n- [ ] Write", "1.3", "- [x] Write the tests\n## Phase 2"),
        # It was renumbered.
        ("Task 2: Create", "Task 7: Create", "1.2", "- [x] Task 7: Create the printer"),
        # Its text was improved.
        (
            "Create the parser",
            "Create the new parser",
            "1.1",
            "- [x] Task 1: Create the new parser",
        ),
        # It has an id, so its text does not matter.
        ("] Named", "] Something else entirely", "named", "- [x] Something else entirely"),
        # Its phase was renamed.
        ("## Phase 1: a", "## Phase 1: z", "1.1", "- [x] Task 1: Create the parser"),
        # Another task was removed.
        ("- [ ] Task 2: Create the printer\n", "", "1.1", "- [x] Task 1: Create the parser"),
    ],
)
def test_a_task_is_found_again_by_what_it_is(change: str, to: str, id: str, line: str) -> None:
    marked = after_edit(ORIGINAL.replace(change, to, 1), id)
    assert line in marked.data.decode()
    assert marked.data.decode().count("[x]") == 1
    assert marked.gone == ()


def test_a_number_that_now_means_something_else_is_not_marked() -> None:
    edited = ORIGINAL.replace("Create the parser", "Delete all of the old files")
    marked = after_edit(edited, "1.1")
    assert marked.data == edited.encode()
    assert [task.id for task in marked.gone] == ["1.1"]


def test_a_task_that_was_renumbered_into_the_place_of_another_is_not_confused_with_it() -> None:
    edited = ORIGINAL.replace("- [ ] Task 1: Create the parser\n", "").replace("Task 2", "Task 1")
    marked = after_edit(edited, "1.1")
    assert b"[x]" not in marked.data
    assert [task.id for task in marked.gone] == ["1.1"]


def test_a_file_that_is_no_plan_any_more_is_left_as_it_is() -> None:
    marked = after_edit("gone\n", "1.1", "1.2")
    assert marked.data == b"gone\n"
    assert len(marked.gone) == 2


STATES = [State.WAITING, State.RUNNING, State.DONE, State.BLOCKED, State.SKIPPED]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@given(data=st.data())
def test_a_round_trip_changes_no_other_byte(end: str, data: st.DataObject) -> None:
    rng = random.Random(data.draw(st.integers(0, 10**6)))
    junk = ["", "prose \xe9 \t", "\udcff", "```\n- [ ] no\n```", "> quote", "<!-- c -->", "\x0b"]
    lines = []
    for phase in range(1, rng.randint(2, 4)):
        lines.append(f"## Phase {phase}: p")
        for task in range(rng.randint(1, 4)):
            tail = rng.choice(["", "", " <!-- files: a -->", "  "])
            lines.append(f"{rng.choice('-*+')} [{rng.choice(' x~!-')}] t{task} w{tail}")
            lines.append(rng.choice(["  <!-- depends: -->", "  more", *junk]))
    before = end.join(lines).replace("\n", end).encode("utf-8", "surrogateescape")
    parsed = plan.read("plan.md", before).plan
    statuses = {
        task.id: Status(state=rng.choice(STATES), commit=rng.choice([None, "9f8e7d6"]), note="why")
        for task in parsed.tasks
        if rng.random() < 0.5
    }
    after = write_back(before, parsed, statuses, trunk="1a2b3c4")
    assert after.gone == ()
    assert _stripped(after.data) == _stripped(before)
    now = {task.id: task for task in plan.read("plan.md", after.data).plan.tasks}
    assert list(now) == [task.id for task in parsed.tasks]
    for id, status in statuses.items():
        assert now[id].status is status.state
    # A second write-back of the same statuses changes no byte.
    assert write_back(after.data, parsed, statuses, trunk="1a2b3c4").data == after.data


_MARK = re.compile(rb"(?m)^([-*+] )\[.\]")
_TAIL = re.compile(rb"(?m) (?:9f8e7d6|\[BLOCKED: why\]|\[checkpoint: 1a2b3c4\])(?=[ \r\n]|$)")


def _stripped(data: bytes) -> bytes:
    """Return the file without the parts that write-back may touch."""
    return _TAIL.sub(b"", _MARK.sub(rb"\1[]", data))
