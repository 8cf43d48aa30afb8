"""`weft plan …`: a file for each command, and the charts they print."""

from __future__ import annotations

from typing import Final

import click

from weft.cli.command_group import CommandGroup, CommandTable

COMMANDS: Final[CommandTable] = {
    "annotate": ("plan.annotate", "Find tasks of a plan that could run in parallel."),
    "check": ("plan.check", "Report every problem of a plan, like a compiler."),
    "from-issues": ("plan.new:from_issues", "Write a plan.md from open issues of the forge."),
    "new": ("plan.new", "Write a plan.md for a goal, or one to start from."),
    "predict": ("plan.predict", "Predict the files that tasks will change."),
    "show": ("plan.check:show", "Draw a plan: its dependencies and its predicted schedule."),
    "split": ("plan.split", "Propose subtasks for a task that is worth splitting."),
    "state": ("plan.check:state", "Write the running phases of a plan as parallel_state.json."),
}


_EXAMPLE: Final = """\b
Example of a plan.md:
  ## Phase 1: Setup
  <!-- execution: parallel -->
  - [ ] Task 1: Create the auth module
    <!-- files: src/auth.ts, src/auth.test.ts -->
  - [ ] Task 2: Log in
    <!-- files: src/login.ts; depends: task1 -->

\b
Keys of a phase:
  execution       parallel or sequential (default)
  depends         phases; empty: may start at once
Keys of a task:
  files, writes   paths and globs that it changes; none
  new             those that it creates
  depends         task2, phase1/task2, 1.2, an id
  reads           files to read first
  check           a command that its work has to pass
  agent, stages   its agent file; test, implement, review, judge
  priority        critical, high, normal, low, background
  class           interactive, standard, batch
  budget, uses    $3, 30m; port=1, ram_gb=2
  needs-labels    labels that its worker must have: gpu, arm64
  parallel-group  tasks that start together or not at all
  team, judge     hedge, best-of 3; the agent that compares
  risky           yes: a hedge starts all its entrants
  part-of         the task that it is a subtask of
  id              a name of your own

docs/plans.md has all of it, and the other formats that weft reads.
"""


@click.group(name="plan", cls=CommandGroup, table=COMMANDS, epilog=_EXAMPLE)
def command() -> None:
    """Check, draw and annotate plans.

    A plan is a plan.md, a prd.json, a beads export, a task-master tasks.json, or a spec-kit, Kiro,
    OpenSpec or superpowers plan. Nothing is run, and no file is changed unless you ask for it.
    """
