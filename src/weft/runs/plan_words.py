"""Words about a plan, for terminals and pages: problems, figures, phases and reasons to wait."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from weft.formats import count, duration, listed, plain
from weft.host_labels import describe_labels
from weft.plan.plan_records import (
    Compiled,
    Edge,
    EdgeReason,
    ItemKind,
    Phase,
    Plan,
    PlanTask,
    Problem,
    Severity,
)
from weft.runs.plan_check import CheckedPlan


def problem_lines(problem: Problem) -> Iterator[str]:
    """Yield a problem as a compiler prints it, with the suggestion beneath."""
    place = f"{problem.file}:{problem.line}:{problem.column}"
    pointer = f" ({problem.pointer})" if problem.pointer else ""
    yield plain(f"{place}: {problem.severity}: {problem.message}{pointer} [{problem.code}]")
    if problem.suggestion:
        yield plain(f"    {problem.suggestion}")


def summary(checked: CheckedPlan) -> str:
    """Return the size of a plan, the number of its problems and its predicted time."""
    errors = sum(problem.severity is Severity.ERROR for problem in checked.problems)
    warnings = len(checked.problems) - errors
    wrong = [
        count(number, noun) for number, noun in ((errors, "error"), (warnings, "warning")) if number
    ]
    text = f"{plain(checked.name)}: {_size(checked.compiled.plan)}"
    text += f", {' and '.join(wrong)}" if wrong else ", no problems"
    if errors:
        return f"{text}."
    slots = count(checked.forecast.slots, "slot")
    guess = f" (a guess: {listed(checked.guesses)})" if checked.guesses else ""
    return f"{text}; about {duration(checked.forecast.seconds)} on {slots}{guess}."


def _size(whole: Plan) -> str:
    phases = [phase for phase in whole.phases if phase.label]
    tasks = count(len(whole.tasks), "task")
    return f"{tasks} in {count(len(phases), 'phase')}" if phases else tasks


def list_notes(checked: CheckedPlan) -> list[str]:
    """Return the sentences about predicted files and about tasks that run one by one."""
    predicted = checked.prediction.note if checked.prediction is not None else ""
    return [note for note in (predicted, plain(checked.parallel_note)) if note]


def figures(checked: CheckedPlan) -> Iterator[tuple[str, str]]:
    """Yield the size of a plan, its predicted time and its bounds, as names and values."""
    forecast, bounds = checked.forecast, checked.forecast.bounds
    tasks = count(len(forecast.schedule), "task")
    if not forecast.schedule:
        yield "Predicted", "nothing is left to run"
        return
    slots = count(forecast.slots, "slot")
    yield "Predicted", f"{duration(forecast.seconds)} for {tasks} on {slots}"
    if checked.guesses:
        yield "Guessed", listed(checked.guesses)
    over = 1 - bounds.lower / forecast.seconds if forecast.seconds else 0.0
    near = "no schedule is shorter" if over < 0.005 else f"{over:.0%} less than predicted"
    yield "At best", f"{duration(bounds.lower)}: {near}"
    yield "Longest path", duration(bounds.critical_path)
    yield "Work per slot", duration(bounds.work_per_slot)
    if bounds.file:
        file = "the whole repository" if bounds.file == "**" else plain(bounds.file)
        yield "Busiest file", f"{file}, {duration(bounds.busiest_file)}"
    yield "Width", f"up to {count(checked.width, 'task')} could run at once"
    yield "Critical path", _path(checked.critical_path)


def _path(names: list[str], most: int = 12) -> str:
    """Join the ids of a path; leave out the middle of a long path."""
    if len(names) > most:
        half = most // 2
        names = [*names[:half], f"… {len(names) - 2 * half} more …", *names[-half:]]
    return plain(" → ".join(names))


def advice(checked: CheckedPlan) -> Iterator[str]:
    """Yield the changes of the plan that would shorten the run most."""
    for saving in checked.savings:
        less = f"−{duration(saving.seconds)}"
        tasks = listed(saving.tasks)
        if saving.file == "**":
            yield plain(f"name the files of {tasks}: {less}")
        else:
            yield plain(f"split {saving.file} between {tasks}: {less}")


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
