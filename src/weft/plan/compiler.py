"""The graph of a plan: its edges with reasons, overlaps, cycles and parallel groups."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from weft import graph
from weft.model import State
from weft.plan.needs import (
    Needs,
    add_explicit,
    add_manual,
    add_phases,
    add_sequential,
    break_cycles,
    list_phase_needs,
)
from weft.plan.overlaps import Ordering, Sweep
from weft.plan.plan_records import Compiled, Edge, EdgeReason, Plan, PlanTask
from weft.plan.problems import TOP, Problems, shorten
from weft.plan.stories import report_teams

_LISTED: Final = 3


@contextmanager
def collector_paused() -> Iterator[None]:
    """Switch the garbage collector off.

    A large plan becomes some hundred thousand small records that all stay. The collector would
    scan them again and again while they grow: a fifth of the time, for next to no garbage.
    """
    was_running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_running:
            gc.enable()


def compile(plan: Plan, capacity: int | None = None) -> Compiled:
    """Return the graph of a plan; at most `capacity` tasks ever run at once."""
    with collector_paused():
        return _compiled(plan, capacity)


def _compiled(plan: Plan, capacity: int | None) -> Compiled:
    problems = Problems(plan.name)
    needs = Needs(plan)
    add_explicit(needs)
    add_sequential(needs)
    add_manual(needs)
    waits = list_phase_needs(needs)
    add_phases(needs, waits)
    _report_own_phases(plan, problems)
    report_teams(plan, problems)
    edges, barriers = needs.records()
    break_cycles(needs, problems)
    ordering = Ordering(needs, waits)
    groups = _groups(plan, ordering, capacity, problems)
    overlaps = _overlaps(plan, ordering, {id for group in groups for id in group}, problems)
    sizes = [1] * len(plan.tasks) + [0] * len(barriers)
    return Compiled(
        plan=plan,
        edges=(*edges, *overlaps),
        barriers=barriers,
        groups=groups,
        problems=problems.sorted(),
        successors=tuple(tuple(following) for following in needs.successors),
        width=graph.width(needs.successors, sizes),
    )


def _overlaps(plan: Plan, ordering: Ordering, grouped: set[str], problems: Problems) -> list[Edge]:
    """Chain the tasks that may change the same file and have no other order.

    Tasks are visited in an order that fits the graph, so that a chain links neighbours. Each link
    points as admission decides between two ready tasks: by class and priority, then in plan order.
    """
    tasks = plan.tasks
    line_up = [
        place
        for place in ordering.order
        if place < len(tasks) and tasks[place].claims and not tasks[place].settled
    ]
    sweep = Sweep([tasks[place].claims for place in line_up])

    def rank(place: int) -> tuple[int, int, int]:
        return tasks[place].klass, tasks[place].priority, place

    links: list[tuple[int, int, tuple[str, ...]]] = []
    for number, place in enumerate(line_up):
        for earlier, files in sweep.claim(number, tasks[place].claims).items():
            if not ordering.related(line_up[earlier], place):
                ends = (line_up[earlier], place)
                first, second = sorted(ends, key=rank) if ordering.sure else ends
                links.append((first, second, tuple(dict.fromkeys(files))))
    if not sweep.complete:
        problems.warn(
            TOP,
            "overlaps-not-listed",
            "The plan has too many wide patterns to list every overlap.",
            "Overlapping tasks still never run at the same time; name files more narrowly.",
        )
    links.sort()
    for first, second, shared in links:
        turns = _describe_turns(tasks, first, second, ordering, grouped)
        _report_overlap(tasks[first], tasks[second], shared, turns, problems)
    return [
        Edge(
            before=tasks[first].id,
            after=tasks[second].id,
            why=EdgeReason.OVERLAP,
            lines=(tasks[first].line, tasks[second].line),
            files=shared,
        )
        for first, second, shared in links
    ]


def _describe_turns(
    tasks: Sequence[PlanTask], first: int, second: int, ordering: Ordering, grouped: set[str]
) -> str:
    """Say which of two tasks goes first; `first` is preferred if both are ready."""
    is_sure = (
        # Tasks gain class and priority while they wait, so the order by one of them may not last.
        tasks[first].klass <= tasks[second].klass
        and tasks[first].priority <= tasks[second].priority
        and tasks[first].status is not State.BLOCKED
        and ordering.is_ready_with(first, second)
        and grouped.isdisjoint((tasks[first].id, tasks[second].id))
    )
    return f"{tasks[first].id if is_sure else 'the task that is ready first'} goes first"


def _report_overlap(
    first: PlanTask, second: PlanTask, files: tuple[str, ...], turns: str, problems: Problems
) -> None:
    if first.files is None or second.files is None:
        # Its author was told already that it runs alone.
        return
    listed = ", ".join(shorten(file) for file in files[:_LISTED])
    more = f" and {len(files) - _LISTED} more" if len(files) > _LISTED else ""
    problems.warn(
        (second.line, second.column),
        "overlap",
        f"{first.id} (line {first.line}) and {second.id} may both change {listed}{more}; "
        f"they never run at the same time, and {turns}.",
        "Split the file between them, or say which of them depends on the other.",
    )


def _report_own_phases(plan: Plan, problems: Problems) -> None:
    for task in plan.tasks:
        for reference in task.depends_phases:
            if reference.to == task.phase:
                problems.error(
                    (reference.line, reference.column),
                    "own-phase",
                    f"{task.id} depends on phase {reference.to}, which it is part of.",
                    "Name the tasks of the phase that it needs.",
                )


def _groups(
    plan: Plan, ordering: Ordering, capacity: int | None, problems: Problems
) -> tuple[tuple[str, ...], ...]:
    """Return the parallel groups (ruling 5) that can start together; report the rest."""
    members: dict[tuple[str, str], list[int]] = {}
    for place, task in enumerate(plan.tasks):
        if task.group is not None and not task.settled:
            members.setdefault((task.phase, task.group), []).append(place)
    groups = []
    for (_, name), places in members.items():
        if len(places) < 2:
            continue
        tasks = [plan.tasks[place] for place in places]
        obstacle = _obstacle(tasks, places, ordering, capacity)
        if obstacle is None:
            groups.append(tuple(task.id for task in tasks))
            continue
        code, reason = obstacle
        problems.warn(
            (tasks[0].line, tasks[0].column),
            code,
            f"The group {shorten(name)!r} cannot start together: {reason}.",
            "Its tasks start one by one; leave off `parallel-group:`, or remove the obstacle.",
        )
    return tuple(groups)


def _obstacle(
    tasks: Sequence[PlanTask], places: Sequence[int], ordering: Ordering, capacity: int | None
) -> tuple[str, str] | None:
    if any(task.manual for task in tasks):
        return "group-manual", "one of its tasks waits for a person"
    if capacity is not None and len(tasks) > capacity:
        return "group-too-large", f"it has {len(tasks)} tasks, and only {capacity} run at once"
    # The first pair settles the case of a sequential phase without a search.
    if ordering.related(places[0], places[1]) or ordering.related_within(places):
        return "group-ordered", "one of its tasks waits for another"
    sweep = Sweep([task.claims for task in tasks])
    for number, task in enumerate(tasks):
        for earlier, files in sweep.claim(number, task.claims).items():
            both = f"{tasks[earlier].id} and {task.id}"
            return "group-overlap", f"{both} may change the same file, {shorten(files[0])}"
    return None
