"""From a plan to its graph: what comes before what and why, what overlaps, what goes in circles."""

from __future__ import annotations

from typing import Final

from weft import graph
from weft.plan import groups
from weft.plan.cycles import break_cycles
from weft.plan.manual import add_manual
from weft.plan.needs import Needs, add_explicit, add_phases, add_sequential, phase_needs
from weft.plan.overlap import Sweep
from weft.plan.phase_pause import collector_paused
from weft.plan.plan_order import Ordering
from weft.plan.plan_records import Compiled, Edge, EdgeReason, Plan, PlanTask
from weft.plan.problems import Problems, shorten

_LISTED: Final = 3


def compile(plan: Plan, capacity: int | None = None) -> Compiled:
    """Work out the graph of a plan; `capacity` is how many tasks can ever run at once."""
    with collector_paused():
        return _compiled(plan, capacity)


def _compiled(plan: Plan, capacity: int | None) -> Compiled:
    problems = Problems(plan.name)
    needs = Needs(plan)
    add_explicit(needs)
    add_sequential(needs)
    add_manual(needs)
    waits = phase_needs(needs)
    add_phases(needs, waits)
    _report_own_phases(plan, problems)
    edges, barriers = needs.records()
    break_cycles(needs, problems)
    ordering = Ordering(needs, waits)
    overlaps = _overlaps(plan, ordering, problems)
    found = groups.find(plan, ordering, capacity, problems)
    sizes = [1] * len(plan.tasks) + [0] * len(barriers)
    return Compiled(
        plan=plan,
        edges=(*edges, *overlaps),
        barriers=barriers,
        groups=found,
        problems=problems.found(),
        successors=tuple(tuple(following) for following in needs.successors),
        width=graph.width(needs.successors, sizes),
    )


def _overlaps(plan: Plan, ordering: Ordering, problems: Problems) -> list[Edge]:
    """Chain the tasks that may change the same file, where nothing else puts them in order.

    They are met in an order that fits the graph, so that a chain links neighbours, and each
    link points as the plan is written.
    """
    tasks = plan.tasks
    line_up = [
        place
        for place in ordering.order
        if place < len(tasks) and tasks[place].claims and not tasks[place].settled
    ]
    sweep = Sweep([tasks[place].claims for place in line_up])
    found: list[tuple[int, int, tuple[str, ...]]] = []
    for number, place in enumerate(line_up):
        for other, files in sweep.claim(number, tasks[place].claims).items():
            if not ordering.related(line_up[other], place):
                ends = (line_up[other], place)
                first, second = sorted(ends) if ordering.sure else ends
                found.append((first, second, tuple(dict.fromkeys(files))))
    if not sweep.complete:
        problems.warn(
            1,
            1,
            "overlaps-not-listed",
            "The plan has too many wide patterns to list every overlap.",
            "Overlapping tasks still never run at the same time; name files more narrowly.",
        )
    found.sort()
    for first, second, shared in found:
        _report_overlap(tasks[first], tasks[second], shared, problems)
    return [
        Edge(
            before=tasks[first].id,
            after=tasks[second].id,
            why=EdgeReason.OVERLAP,
            lines=(tasks[first].line, tasks[second].line),
            files=shared,
        )
        for first, second, shared in found
    ]


def _report_overlap(
    first: PlanTask, second: PlanTask, files: tuple[str, ...], problems: Problems
) -> None:
    if first.files is None or second.files is None:
        # Its author was told already that it runs alone.
        return
    listed = ", ".join(shorten(file) for file in files[:_LISTED])
    more = f" and {len(files) - _LISTED} more" if len(files) > _LISTED else ""
    problems.warn(
        second.line,
        second.column,
        "overlap",
        f"{first.id} (line {first.line}) and {second.id} may both change {listed}{more}; "
        f"they never run at the same time, and {first.id} goes first.",
        "Split the file between them, or say which of them depends on the other.",
    )


def _report_own_phases(plan: Plan, problems: Problems) -> None:
    for task in plan.tasks:
        for reference in task.depends_phases:
            if reference.to == task.phase:
                problems.error(
                    reference.line,
                    reference.column,
                    "own-phase",
                    f"{task.id} depends on phase {reference.to}, which it is part of.",
                    "Name the tasks of the phase that it needs.",
                )
