"""The text of a planner's task: the goal, the repository's map, the form, the last plan."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct

from weft.agents.prompt import write_fenced
from weft.formats import count, plain
from weft.plan.plan_records import Problem
from weft.plan.problems import shorten

FORM_HEADING: Final = "## The form of the plan"
PROBLEMS_HEADING: Final = "## The problems of your last plan"

_MOST_PROBLEMS: Final = 60
_FORM: Final = """\
Answer with the plan alone, in this form:

```markdown
# Title

## Phase 1: Name
<!-- execution: parallel -->

- [ ] Task 1: What to change, and how it is known to be done
  <!-- files: src/app.py, tests/test_app.py -->
  <!-- check: python -m pytest tests/test_app.py -->
- [ ] Task 2: The same for a module that does not exist yet
  <!-- new: src/auth.py, tests/test_auth.py -->
  <!-- check: python -m pytest tests/test_auth.py -->

## Phase 2: Name

- [ ] Task 1: What builds on both
  <!-- files: src/main.py; depends: phase1/task2 -->
  <!-- check: python -m pytest tests/test_main.py -->
```

- Tasks of a phase run one after another, unless it says `execution: parallel`. A phase starts when
  all phases before it are done, unless it says `depends:` with the phases it needs.
- `files:` names what a task changes, and nothing else: two tasks never change a file at the same
  time. `new:` names the files that it creates. Paths are relative to the root of the repository.
- A file that many tasks need is changed by one task, before or after the others.
- `check:` is a command that passes when the task is done.
- An agent sees the text of its own task and nothing else of the plan: say where, what and how.
- No task for a person, no placeholder, no task that only looks."""


class LastPlan(Struct, frozen=True, kw_only=True):
    """The answer of a planner in the round before, with its problems."""

    task: int  # the planner's task
    plan: str | None  # None: the answer had no plan
    problems: tuple[Problem, ...]
    micro_usd: int  # spent in all rounds so far


def write_request(goal: str, map_text: str, last: LastPlan | None) -> str:
    """Write the whole text, since a session that continues may have been lost."""
    parts = [goal.strip(), "## The repository", write_fenced(map_text), FORM_HEADING, _FORM]
    if last is not None:
        parts += [PROBLEMS_HEADING, *_describe(last)]
    return "\n\n".join(parts) + "\n"


def _describe(last: LastPlan) -> Iterator[str]:
    if last.plan is None:
        yield "Your last answer had no task in the form above. Answer with the plan itself."
        return
    yield "Write the whole plan again, without these problems:"
    yield "\n".join(_problem_lines(last.problems, last.plan.split("\n")))
    yield "Your last plan:"
    yield write_fenced(last.plan)


def _problem_lines(problems: Sequence[Problem], lines: Sequence[str]) -> Iterator[str]:
    for problem in problems[:_MOST_PROBLEMS]:
        quoted = lines[problem.line - 1].strip() if problem.line <= len(lines) else ""
        where = f"line {problem.line}" + (f" (`{shorten(quoted)}`)" if quoted else "")
        yield plain(f"- {where}: {problem.message} [{problem.code}] {problem.suggestion}".rstrip())
    if len(problems) > _MOST_PROBLEMS:
        yield f"- and {count(len(problems) - _MOST_PROBLEMS, 'more problem')}"
