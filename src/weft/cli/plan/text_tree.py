"""A plan as a tree: its phases and tasks, who waits for whom, and why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from weft.cli.plan.plan_text import count, listed, mark, plain
from weft.plan.plan_records import Compiled, Edge, EdgeReason, Phase, Plan, PlanTask

_MOST_REASONS: Final = 5
_DEEPEST: Final = 8


def draw(compiled: Compiled) -> Iterator[str]:
    plan = compiled.plan
    reasons = why(compiled)
    members: dict[str, list[PlanTask]] = {phase.label: [] for phase in plan.phases}
    for task in plan.tasks:
        members[task.phase].append(task)
    waits = phase_waits(compiled)
    for phase in plan.phases:
        yield heading(phase, waits.get(phase.label, {}))
        yield from _branches(members[phase.label], reasons)


def heading(phase: Phase, waits: dict[str, int]) -> str:
    if not phase.label:
        return plain(phase.title) or "Tasks"
    said = [plain(phase.heading or f"Phase {phase.label}: {phase.title}")]
    said.append("parallel" if phase.parallel else "one after the other")
    if waits:
        names = [f"phase {label}" for label in waits]
        lines = list(dict.fromkeys(str(line) for line in waits.values()))
        said.append(f"after {listed(names)} (line{'s' * (len(lines) > 1)} {listed(lines)})")
    return " · ".join(said)


def phase_waits(compiled: Compiled) -> dict[str, dict[str, int]]:
    """For each phase those it waits for, and the line that says so."""
    phase_of = {task.id: task.phase for task in compiled.plan.tasks}
    found: dict[str, dict[str, int]] = {}
    pairs = [(edge.before, edge.after, edge.lines, edge.why) for edge in compiled.edges]
    pairs += [(each.before[0], each.after[0], each.lines, each.why) for each in compiled.barriers]
    for before, after, lines, reason in pairs:
        if reason is EdgeReason.PHASE:
            waits = found.setdefault(phase_of[after], {})
            waits.setdefault(phase_of[before], lines[-1] if lines else 1)
    return found


def why(compiled: Compiled) -> dict[str, list[str]]:
    """For each task what it waits for beyond its phase, as sentences."""
    found: dict[str, list[str]] = {}
    for (after, reason), edges in _alike(compiled.edges).items():
        found.setdefault(after, []).extend(_reasons(reason, edges))
    for barrier in compiled.barriers:
        if barrier.why is not EdgeReason.PHASE:
            for after in barrier.after:
                found.setdefault(after, []).append(f"waits for {listed(barrier.before)}")
    for group in compiled.groups:
        for name in group:
            others = [other for other in group if other != name]
            found.setdefault(name, []).append(f"starts together with {listed(others)}")
    return found


def _alike(edges: Sequence[Edge]) -> dict[tuple[str, EdgeReason], list[Edge]]:
    """The edges that lead to one task for one reason; those the tree itself shows left out."""
    found: dict[tuple[str, EdgeReason], list[Edge]] = {}
    for edge in edges:
        if edge.why not in (EdgeReason.PHASE, EdgeReason.PART):
            found.setdefault((edge.after, edge.why), []).append(edge)
    return found


def _reasons(reason: EdgeReason, edges: Sequence[Edge]) -> Iterator[str]:
    if reason is EdgeReason.OVERLAP:
        for edge in edges:
            yield f"not at the same time as {edge.before}: both may change {listed(edge.files, 3)}"
        return
    befores = [edge.before for edge in edges]
    match reason:
        case EdgeReason.SEQUENTIAL:
            because = "one after the other"
        case EdgeReason.MANUAL:
            because = "a person looks at it then"
        case _:
            because = f"depends, {_lines(edges)}"
    yield f"waits for {listed(befores)} ({because})"


def _lines(edges: Sequence[Edge]) -> str:
    numbers = list(dict.fromkeys(str(line) for edge in edges for line in edge.lines))
    return f"line{'s' * (len(numbers) > 1)} {listed(numbers)}"


def _branches(tasks: Sequence[PlanTask], reasons: dict[str, list[str]]) -> Iterator[str]:
    """The tasks of a phase, with the parts of a story or an epic beneath it."""
    parts: dict[str | None, list[PlanTask]] = {}
    own = {task.id for task in tasks}
    for task in tasks:
        parts.setdefault(task.parent if task.parent in own else None, []).append(task)
    waiting = [(task, "", task is parts[None][-1]) for task in reversed(parts.get(None, []))]
    while waiting:
        task, lead, last = waiting.pop()
        yield f"{lead}{'└' if last else '├'}─ [{mark(task)}] {describe(task)}"
        beneath = lead + ("   " if last else "│  ")
        children = parts.get(task.id, [])
        yield from _notes(reasons.get(task.id, []), beneath + ("│ " if children else "  "))
        deeper = beneath if len(beneath) <= 3 * _DEEPEST else lead
        waiting.extend((child, deeper, child is children[-1]) for child in reversed(children))


def describe(task: PlanTask) -> str:
    """The task on one line."""
    said = plain(f"{task.id} {task.text}")
    if task.manual:
        said += " (waits for a person)"
    if task.note:
        said += f" ({plain(task.note)})"
    return said


def _notes(reasons: Sequence[str], lead: str) -> Iterator[str]:
    for reason in reasons[:_MOST_REASONS]:
        yield f"{lead}     {plain(reason)}"
    if len(reasons) > _MOST_REASONS:
        yield f"{lead}     … and {count(len(reasons) - _MOST_REASONS, 'more reason')}"


def names(plan: Plan) -> dict[str, str]:
    return {task.id: f"{task.id} {task.text}" for task in plan.tasks}
