"""A plan as a tree of phases and tasks, with the reasons for which each task waits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from weft.formats import count, listed, plain
from weft.host_labels import describe_labels
from weft.plan.plan_records import Compiled, Edge, EdgeReason, ItemKind, Phase, PlanTask

_MOST_REASONS: Final = 5
_DEEPEST: Final = 8
_MARKS: Final = {"running": "~", "done": "x", "blocked": "!", "skipped": "-"}


def draw_tree(compiled: Compiled) -> Iterator[str]:
    reasons = list_reasons(compiled)
    for heading, tasks in list_phases(compiled):
        yield heading
        yield from _branches(tasks, reasons)


def list_phases(compiled: Compiled) -> Iterator[tuple[str, list[PlanTask]]]:
    """Yield the heading and the tasks of each phase."""
    members: dict[str, list[PlanTask]] = {phase.label: [] for phase in compiled.plan.phases}
    for task in compiled.plan.tasks:
        members[task.phase].append(task)
    waits = _phase_waits(compiled)
    for phase in compiled.plan.phases:
        yield _heading(phase, waits.get(phase.label, {})), members[phase.label]


def _heading(phase: Phase, waits: dict[str, int]) -> str:
    if not phase.label:
        return plain(phase.title) or "Tasks"
    parts = [plain(phase.heading or f"Phase {phase.label}: {phase.title}")]
    parts.append("parallel" if phase.parallel else "one after the other")
    if waits:
        names = [f"phase {label}" for label in waits]
        lines = list(dict.fromkeys(str(line) for line in waits.values()))
        parts.append(f"after {listed(names)} (line{'s' * (len(lines) > 1)} {listed(lines)})")
    return " · ".join(parts)


def _phase_waits(compiled: Compiled) -> dict[str, dict[str, int]]:
    """Map each phase to the phases it waits for, and to the line that says so."""
    phase_of = {task.id: task.phase for task in compiled.plan.tasks}
    waits: dict[str, dict[str, int]] = {}
    pairs = [(edge.before, edge.after, edge.lines, edge.why) for edge in compiled.edges]
    pairs += [
        (barrier.before[0], barrier.after[0], barrier.lines, barrier.why)
        for barrier in compiled.barriers
    ]
    for before, after, lines, reason in pairs:
        if reason is EdgeReason.PHASE:
            before_phases = waits.setdefault(phase_of[after], {})
            before_phases.setdefault(phase_of[before], lines[-1] if lines else 1)
    return waits


def list_reasons(compiled: Compiled) -> dict[str, list[str]]:
    """Map each task to sentences about its waits, apart from the order of phases."""
    reasons: dict[str, list[str]] = {}
    for (after, reason), edges in _alike(compiled.edges).items():
        reasons.setdefault(after, []).extend(_reasons(reason, edges))
    for barrier in compiled.barriers:
        if barrier.why is not EdgeReason.PHASE:
            for after in barrier.after:
                reasons.setdefault(after, []).append(f"waits for {listed(barrier.before)}")
    for group in compiled.groups:
        for name in group:
            rest = [member for member in group if member != name]
            reasons.setdefault(name, []).append(f"starts together with {listed(rest)}")
    for task in compiled.plan.tasks:
        if task.needs_labels and task.kind is not ItemKind.STORY:
            text = f"needs a worker with {describe_labels(task.needs_labels)}"
            reasons.setdefault(task.id, []).append(text)
    return reasons


def _alike(edges: Sequence[Edge]) -> dict[tuple[str, EdgeReason], list[Edge]]:
    """Group edges by task and reason; leave out edges that the tree itself shows."""
    groups: dict[tuple[str, EdgeReason], list[Edge]] = {}
    for edge in edges:
        if edge.why not in (EdgeReason.PHASE, EdgeReason.PART):
            groups.setdefault((edge.after, edge.why), []).append(edge)
    return groups


def _reasons(reason: EdgeReason, edges: Sequence[Edge]) -> Iterator[str]:
    if reason is EdgeReason.OVERLAP:
        for edge in edges:
            yield f"not at the same time as {edge.before}: both may change {listed(edge.files, 3)}"
        return
    match reason:
        case EdgeReason.SEQUENTIAL:
            because = "one after the other"
        case EdgeReason.MANUAL:
            because = "a person looks at it then"
        case _:
            numbers = list(dict.fromkeys(str(line) for edge in edges for line in edge.lines))
            because = f"depends, line{'s' * (len(numbers) > 1)} {listed(numbers)}"
    yield f"waits for {listed([edge.before for edge in edges])} ({because})"


def _branches(tasks: Sequence[PlanTask], reasons: dict[str, list[str]]) -> Iterator[str]:
    """Yield the tasks of a phase, with the parts of a story or an epic beneath it."""
    parts: dict[str | None, list[PlanTask]] = {}
    own = {task.id for task in tasks}
    for task in tasks:
        parts.setdefault(task.parent if task.parent in own else None, []).append(task)
    waiting = [(task, "", task is parts[None][-1]) for task in reversed(parts.get(None, []))]
    while waiting:
        task, lead, last = waiting.pop()
        yield f"{lead}{'└' if last else '├'}─ [{_MARKS.get(task.status, ' ')}] {_describe(task)}"
        beneath = lead + ("   " if last else "│  ")
        children = parts.get(task.id, [])
        yield from _notes(reasons.get(task.id, []), beneath + ("│ " if children else "  "))
        deeper = beneath if len(beneath) <= 3 * _DEEPEST else lead
        waiting.extend((child, deeper, child is children[-1]) for child in reversed(children))


def _describe(task: PlanTask) -> str:
    person = " (waits for a person)" if task.manual else ""
    note = f" ({plain(task.note)})" if task.note else ""
    return plain(f"{task.id} {task.title}") + person + note


def _notes(reasons: Sequence[str], lead: str) -> Iterator[str]:
    for reason in reasons[:_MOST_REASONS]:
        yield f"{lead}     {plain(reason)}"
    if len(reasons) > _MOST_REASONS:
        yield f"{lead}     … and {count(len(reasons) - _MOST_REASONS, 'more reason')}"
