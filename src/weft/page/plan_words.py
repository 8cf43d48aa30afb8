"""Words about a checked plan, for terminals and pages."""

from __future__ import annotations

from collections.abc import Iterator

from weft.formats import count, duration, listed, plain
from weft.plan.plan_records import Plan, Problem, Severity
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
