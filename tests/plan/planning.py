"""Shorthands to read a plan in a test, and to query the result."""

from __future__ import annotations

import random
import textwrap
from collections.abc import Iterable

from weft import plan
from weft.plan.plan_records import Compiled, EdgeReason, ParsedPlan, PlanTask, Problem, Severity

PATTERNS = [
    "a",
    "b",
    "src",
    "src/a.py",
    "src/b.py",
    "src/x/a.py",
    "src/**",
    "src/*.py",
    "src/x/**",
    "**/*.py",
    "*.md",
    "docs/[ab].md",
    "docs/a.md",
    "**",
]


def reading(text: str, name: str = "plan.md") -> ParsedPlan:
    return plan.read(name, textwrap.dedent(text).encode())


def compiled(text: str, name: str = "plan.md") -> Compiled:
    """Read and compile a plan that has no errors."""
    parsed = reading(text, name)
    result = plan.compile(parsed.plan)
    assert errors((*parsed.problems, *result.problems)) == []
    return result


def problems(text: str, name: str = "plan.md") -> list[Problem]:
    """Return all problems from reading and compiling."""
    parsed = reading(text, name)
    return [*parsed.problems, *plan.compile(parsed.plan).problems]


def errors(reported: Iterable[Problem]) -> list[Problem]:
    return [problem for problem in reported if problem.severity is Severity.ERROR]


def codes(reported: Iterable[Problem]) -> list[str]:
    return [problem.code for problem in reported]


def only(reported: Iterable[Problem], code: str) -> Problem:
    """Return the only problem with this code."""
    (problem,) = [problem for problem in reported if problem.code == code]
    return problem


def tasks(text: str, name: str = "plan.md") -> dict[str, PlanTask]:
    return {task.id: task for task in reading(text, name).plan.tasks}


def edges(result: Compiled, *why: EdgeReason) -> set[tuple[str, str]]:
    """The edges of some kinds, or all of them, with barriers written out."""
    kinds = why or tuple(EdgeReason)
    pairs = {(edge.before, edge.after) for edge in result.edges if edge.why in kinds}
    for barrier in result.barriers:
        if barrier.why in kinds:
            pairs |= {(a, b) for a in barrier.before for b in barrier.after}
    return pairs


def needs(result: Compiled) -> set[tuple[str, str]]:
    return edges(result, *(why for why in EdgeReason if why is not EdgeReason.OVERLAP))


def order(result: Compiled) -> set[tuple[str, str]]:
    """Return every ordered pair of tasks, the earlier task first."""
    after: dict[str, set[str]] = {task.id: set() for task in result.plan.tasks}
    for a, b in needs(result):
        after[a].add(b)
    pairs = set()
    for start in after:
        waiting = [start]
        seen: set[str] = set()
        while waiting:
            for each in after[waiting.pop()]:
                if each not in seen:
                    seen.add(each)
                    waiting.append(each)
        pairs |= {(start, each) for each in seen}
    return pairs


def waves(result: Compiled) -> list[list[str]]:
    """Return the tasks in waves, as if each took a step and there was room for all."""
    before: dict[str, set[str]] = {task.id: set() for task in result.plan.tasks}
    for a, b in needs(result):
        before[b].add(a)
    started = []
    done: set[str] = set()
    while len(done) < len(before):
        wave = [id for id, waits in before.items() if id not in done and waits <= done]
        started.append(wave)
        done.update(wave)
    return started


def random_plan(seed: int) -> str:
    """A plan with phases of both kinds, references everywhere and files that collide."""
    rng = random.Random(seed)
    lines = []
    sizes = [rng.randint(1, 5) for _ in range(rng.randint(1, 5))]
    for phase, size in enumerate(sizes, 1):
        lines.append(f"## Phase {phase}: x")
        if rng.random() < 0.6:
            lines.append("<!-- execution: parallel -->")
        if rng.random() < 0.5:
            earlier = [f"phase{each}" for each in range(1, phase) if rng.random() < 0.5]
            lines.append(f"<!-- depends: {', '.join(earlier)} -->")
        for task in range(1, size + 1):
            manual = "manual verification" if rng.random() < 0.15 else "x"
            lines.append(f"- [ ] Task {task}: {manual}")
            if rng.random() < 0.8:
                files = rng.sample(PATTERNS[:-1], rng.randint(1, 3))
                lines.append(f"  <!-- files: {', '.join(files)} -->")
            if rng.random() < 0.3:
                target = rng.randint(1, len(sizes))
                lines.append(f"  <!-- depends: {target}.{rng.randint(1, sizes[target - 1])} -->")
    return "\n".join(lines) + "\n"
