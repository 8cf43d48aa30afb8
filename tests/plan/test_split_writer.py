"""Subtasks written into plans; no other byte changes."""

from __future__ import annotations

import json

import pytest

from cases import each_case
from weft import plan
from weft.errors import InputError
from weft.plan.plan_records import ItemKind, Severity
from weft.plan.split_writer import NewPart, write_parts

PLAN = """\
# Title

## Phase 1: A

- [ ] Task 1: Big
  <!-- files: a.py, b.py, c.py -->
- [ ] Last of the phase
  <!-- files: z.py -->

  More about it.

Prose behind the tasks.

## Notes

- no task
"""
PARTS = (
    NewPart(text="Big: a", files=("a.py",)),
    NewPart(text="Big: b", files=("b.py", 'odd, "name'[:4]), details="- carefully"),
    NewPart(text="Big: c", files=("c.py", "n.py"), new=("n.py",), after=(0, 1), check="make; ls"),
)


def split(text: str, id: str = "1.1", parts: tuple[NewPart, ...] = PARTS) -> bytes:
    whole = plan.read("plan.md", text.encode()).plan
    [task] = [task for task in whole.tasks if task.id == id]
    return write_parts(whole, text.encode(), task, parts)


@each_case(
    "text", [PLAN, PLAN.replace("\n", "\r\n"), "\ufeff" + PLAN, PLAN[: PLAN.index("\n\n  More")]]
)
def test_the_parts_of_a_task_stand_behind_its_phase_and_are_read_back(text: str) -> None:
    written = split(text).decode()
    read = plan.read("plan.md", written.encode())
    assert not [each for each in read.problems if each.severity is Severity.ERROR]
    tasks = {task.id: task for task in read.plan.tasks}
    assert list(tasks) == ["1.1.a", "1.1.b", "1.1.c", "1.1", "1.2"]
    assert tasks["1.1"].kind is ItemKind.STORY
    last = tasks["1.1.c"]
    assert (last.files, last.new, last.check) == (("c.py", "n.py"), ("n.py",), "make; ls")
    assert {reference.to for reference in last.depends} == {"1.1.a", "1.1.b"}
    assert "carefully" in tasks["1.1.b"].details
    assert _without_parts(written) == text, "no other byte changes"


def _without_parts(written: str) -> str:
    lines = written.splitlines(keepends=True)
    first = next(number for number, line in enumerate(lines) if line.startswith("- [ ] Big: a"))
    last = next(number for number, line in enumerate(lines) if "check: make; ls" in line)
    rest = "".join([*lines[:first], *lines[last + 1 :]])
    return rest if lines[last + 1 :] else rest.removesuffix("\n")


def test_the_story_of_a_prd_gets_its_subtasks_and_no_other_byte_changes() -> None:
    text = '{"stories": [\n  {"id": "S-1", "title": "Big",  "files": ["a.py"]}\n]}\n'
    whole = plan.read("prd.json", text.encode()).plan
    written = write_parts(whole, text.encode(), whole.tasks[0], PARTS[:2]).decode()
    before, _, after = text.partition('["a.py"]')
    assert written.startswith(before + '["a.py"],')
    assert written.endswith(after)
    [story] = json.loads(written)["stories"]
    assert [part["id"] for part in story["subtasks"]] == ["S-1.a", "S-1.b"]
    read = plan.read("prd.json", written.encode())
    assert not [each for each in read.problems if each.severity is Severity.ERROR]
    assert [task.id for task in read.plan.tasks] == ["S-1.a", "S-1.b", "S-1"]


def test_a_path_that_would_end_the_comment_is_refused() -> None:
    hostile = (NewPart(text="x", files=("a-->.py",)), NewPart(text="y", files=("b.py",)))
    with pytest.raises(InputError, match="breaks its lines"):
        split(PLAN, parts=hostile)


def test_a_format_without_subtasks_is_refused() -> None:
    text = "## 1. Setup\n\n- [ ] 1.1 Create it\n- [ ] 1.2 Use it\n"
    whole = plan.read("tasks.md", text.encode()).plan
    with pytest.raises(InputError, match=r"plan.md"):
        write_parts(whole, text.encode(), whole.tasks[0], PARTS)


def test_ids_that_are_taken_are_left_out() -> None:
    text = PLAN.replace("files: z.py", "files: z.py; id: 1.1.a")
    assert b"id: 1.1.b; part-of" in split(text)
    assert split(text).count(b"id: 1.1.a") == 1
