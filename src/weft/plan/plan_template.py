"""The plan.md that `weft plan new` writes: an example with comments.

Its two tasks are refused until their author has replaced them, so that no agent works on them.
"""

from __future__ import annotations

from typing import Final

PLACEHOLDER: Final = "Replace this by the "
"""The beginning of the tasks of the template."""

TEMPLATE: Final = """\
# Title of the plan

Say here what the plan is for. Every agent reads this text before its task.

<!-- A phase is a heading. Its tasks run one after the other unless it is parallel; then tasks
     whose files differ run at the same time. A phase comes after all earlier phases. -->

## Phase 1: Setup
<!-- execution: parallel -->

<!-- A task is a line with a box. Its first sentence is its title; the agent gets all of it, and
     the lines below it. Name in `files` the paths and globs that the task changes: a task without
     them runs alone. -->

- [ ] Task 1: Replace this by the first task. Say how it is known to be done.
  <!-- files: src/first.py, tests/test_first.py -->
  - Details are lines below the task.
- [ ] Task 2: Replace this by the second task
  <!-- files: docs/first.md; depends: task1 -->

<!-- More keys of a task: `check: make test` (a command that its work has to pass), `agent: human`
     (you do it), `priority: high`, `budget: $3, 30m`. docs/plans.md has all of them.

     weft plan check FILE    reports problems, and predicts the time
     weft run FILE           runs the plan, and ticks the boxes -->
"""
