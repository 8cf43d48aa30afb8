"""Parallel groups (ruling 5): tasks to be admitted together or not at all."""

from __future__ import annotations

from collections.abc import Sequence

from weft.plan.overlap import Sweep
from weft.plan.plan_order import Ordering
from weft.plan.plan_records import Plan, PlanTask
from weft.plan.problems import Problems, shorten


def find(
    plan: Plan, ordering: Ordering, capacity: int | None, problems: Problems
) -> tuple[tuple[str, ...], ...]:
    """Return the groups that can be admitted; the tasks of any other are ordinary ones."""
    members: dict[tuple[str, str], list[int]] = {}
    for place, task in enumerate(plan.tasks):
        if task.group is not None and not task.settled:
            members.setdefault((task.phase, task.group), []).append(place)
    found = []
    for (_, name), places in members.items():
        if len(places) < 2:
            continue
        tasks = [plan.tasks[place] for place in places]
        obstacle = _obstacle(tasks, places, ordering, capacity)
        if obstacle is None:
            found.append(tuple(task.id for task in tasks))
            continue
        code, reason = obstacle
        problems.warn(
            tasks[0].line,
            tasks[0].column,
            code,
            f"The group {shorten(name)!r} cannot start together: {reason}.",
            "Its tasks start one by one; leave off `parallel-group:`, or mend what parts them.",
        )
    return tuple(found)


def _obstacle(
    tasks: Sequence[PlanTask], places: Sequence[int], ordering: Ordering, capacity: int | None
) -> tuple[str, str] | None:
    if any(task.manual for task in tasks):
        return "group-manual", "one of its tasks waits for a person"
    if capacity is not None and len(tasks) > capacity:
        return "group-too-large", f"it has {len(tasks)} tasks, and only {capacity} run at once"
    # Two of one sequential phase are in order, which is quicker seen than found.
    if ordering.related(places[0], places[1]) or ordering.related_within(places):
        return "group-ordered", "one of its tasks waits for another"
    sweep = Sweep([task.claims for task in tasks])
    for number, task in enumerate(tasks):
        for other, files in sweep.claim(number, task.claims).items():
            both = f"{tasks[other].id} and {task.id}"
            return "group-overlap", f"{both} may change the same file, {shorten(files[0])}"
    return None
