"""Converting: what comes before what, which files, and how far it is, survive every way round."""

from __future__ import annotations

import json

import pytest

from plan.planning import compiled, errors, order, random_plan
from weft import plan
from weft.model import State
from weft.plan.conversion import convert
from weft.plan.plan_records import ItemKind, Plan, Source

NAMES = {Source.MARKDOWN: "plan.md", Source.PRD: "prd.json", Source.BEADS: "issues.jsonl"}

EVERYTHING = """# All of it

## Phase 1: Setup [checkpoint: 1a2b3c4]
<!-- execution: parallel -->

- [x] Task 1: Create the auth module 9f8e7d6
  <!-- files: src/auth.ts, "a,b.ts" -->
  - [ ] a detail
- [!] Task 2: Create the config module [BLOCKED: no key]
  <!-- id: config -->
  <!-- files: src/config/** -->
  <!-- reads: docs/spec.md -->
  <!-- depends: 1.1 -->
  <!-- agent: codex -->
  <!-- parallel-group: core -->
  <!-- stages: test, implement -->
  <!-- priority: high -->
  <!-- class: batch -->
  <!-- budget: $3, 30m -->
  <!-- uses: port=1, ram_gb=2 -->
  <!-- check: make lint; make test -->
  <!-- team: 3 of claude -->

  More about it.

## Phase 2: UI
<!-- depends: -->

- [-] Task 1: Login page
- [~] Task 2: Report
  <!-- files: none -->
- [ ] Task 3: Manual verification
- [ ] Task 4: Look at it
  <!-- agent: human -->

## Phase 3: End
<!-- depends: phase1 -->

- [ ] Task 1: Finish
  <!-- depends: config, phase2 -->
"""


def converted(before: Plan, to: Source) -> Plan:
    found = plan.read(NAMES[to], convert(before, to).encode())
    assert errors(found.problems) == []
    return found.plan


def test_a_plan_is_written_as_it_was_read() -> None:
    found = plan.read("plan.md", EVERYTHING.encode()).plan
    assert convert(found, Source.MARKDOWN) == EVERYTHING


@pytest.mark.parametrize("to", [Source.MARKDOWN, Source.PRD])
@pytest.mark.parametrize("seed", range(40))
def test_order_files_and_status_survive(seed: int, to: Source) -> None:
    before = plan.compile(plan.read("plan.md", random_plan(seed).encode()).plan)
    if any(problem.code == "cycle" for problem in before.problems):
        return
    after = plan.compile(converted(before.plan, to))
    assert order(after) == order(before)
    old = {task.id: task for task in before.plan.tasks}
    new = {task.id: task for task in after.plan.tasks}
    assert old.keys() == new.keys()
    for id, task in old.items():
        assert (new[id].claims, new[id].manual) == (task.claims, task.manual)


@pytest.mark.parametrize("seed", range(20))
def test_an_export_says_the_same_again(seed: int) -> None:
    before = plan.compile(plan.read("plan.md", random_plan(seed).encode()).plan)
    if any(problem.code == "cycle" for problem in before.problems):
        return
    text = convert(before.plan, Source.BEADS)
    assert order(compiled(text, "issues.jsonl")) == order(before)


STORIES = {
    "title": "T",
    "stories": [
        {"id": "A-1", "title": "first <!-- x -->", "files": ["a"], "passes": True},
        {
            "id": "A-2",
            "title": "second",
            "description": "why\n\n```\ncode\n```\n<!-- files: zzz -->",
            "depends_on": ["A-1"],
            "subtasks": [
                {"id": "a", "description": "one", "files": ["b"]},
                {"id": "b", "description": "two", "files": ["c"], "depends_on": ["a"]},
            ],
        },
        {"id": "odd id, with comma", "title": "third", "files": ["d"], "depends_on": ["A-2"]},
    ],
}


def test_stories_become_tasks_of_one_parallel_phase() -> None:
    text = json.dumps(STORIES)
    before = compiled(text, "prd.json")
    after = plan.compile(converted(before.plan, Source.MARKDOWN))
    assert [phase.parallel for phase in after.plan.phases] == [True]
    names = {"odd id, with comma": "1.5"}
    expected = {(names.get(a, a), names.get(b, b)) for a, b in order(before)}
    assert order(after) == expected
    tasks = {task.id: task for task in after.plan.tasks}
    assert tasks["A-1"].status is State.DONE
    assert tasks["A-2"].files == ("b", "c")
    assert "zzz" not in str(tasks["A-2"])


def test_a_prd_stays_a_prd() -> None:
    before = plan.read("prd.json", json.dumps(STORIES).encode()).plan
    after = converted(before, Source.PRD)
    assert order(plan.compile(after)) == order(plan.compile(before))
    assert [(task.id, task.kind, task.text) for task in after.tasks] == [
        (task.id, task.kind, task.text) for task in before.tasks
    ]


def test_stories_become_epics_with_children() -> None:
    before = plan.read("prd.json", json.dumps(STORIES).encode()).plan
    after = converted(before, Source.BEADS)
    kinds = {task.id: (task.kind, task.parent) for task in after.tasks}
    assert kinds["A-2"] == (ItemKind.EPIC, None)
    assert kinds["A-2.a"] == (ItemKind.TASK, "A-2")
    assert "A-1" not in kinds
