"""Cycles (ruling 8): find them, print them whole, and take them apart to go on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from weft import graph
from weft.plan.needs import Needs
from weft.plan.plan_records import EdgeReason
from weft.plan.problems import Problems

_MOST_CYCLES: Final = 20
_MOST_STEPS: Final = 500
_LISTED: Final = 3


def break_cycles(needs: Needs, problems: Problems) -> None:
    """Report every cycle and remove an edge of each, so that the rest can be compiled."""
    for _ in range(_MOST_CYCLES):
        cycle = graph.find_cycle(needs.successors)
        if cycle is None:
            return
        steps = list(_steps(cycle, needs))
        _report(steps, needs, problems)
        # Prefer an explicit edge: authors write few of them, so it is the likely mistake.
        _remove(
            min(steps, key=lambda step: (step.why is not EdgeReason.EXPLICIT, step.lines)), needs
        )
    _keep_forward_edges(needs)


class _Step:
    """An edge of a cycle, from task to task; it may lead through a barrier."""

    def __init__(self, nodes: list[int], why: EdgeReason, lines: tuple[int, ...]) -> None:
        self.nodes = nodes
        self.why = why
        self.lines = lines


def _steps(cycle: list[int], needs: Needs) -> Iterator[_Step]:
    count = len(needs.plan.tasks)
    start = next(place for place, node in enumerate(cycle) if node < count)
    ring = [*cycle[start:], *cycle[:start], cycle[start]]
    at = 0
    while at < len(ring) - 1:
        if ring[at + 1] < count:
            why, lines = needs.edges[ring[at], ring[at + 1]]
            yield _Step(ring[at : at + 2], why, lines)
            at += 1
        else:
            # A barrier leads to tasks only.
            _, _, why, lines = needs.barriers[ring[at + 1] - count]
            yield _Step(ring[at : at + 3], why, lines)
            at += 2


def _report(steps: list[_Step], needs: Needs, problems: Problems) -> None:
    tasks = needs.plan.tasks
    first = tasks[steps[0].nodes[0]]
    round_trip = [f"{first.id} (line {first.line})"]
    for step in steps[:_MOST_STEPS]:
        task = tasks[step.nodes[-1]]
        round_trip.append(f"{task.id} (line {task.line})")
    if len(steps) > _MOST_STEPS:
        round_trip.append(f"… {len(steps) - _MOST_STEPS} more … → {first.id}")
    explicit = [step for step in steps if step.why is EdgeReason.EXPLICIT] or steps
    reasons = [_reason(step, needs) for step in explicit[:_LISTED]]
    problems.error(
        (explicit[0].lines[-1] if explicit[0].lines else first.line, 1),
        "cycle",
        f"These tasks wait for each other: {' → '.join(round_trip)}.",
        f"Remove one of these: {'; '.join(reasons)}.",
    )


def _reason(step: _Step, needs: Needs) -> str:
    before, after = needs.plan.tasks[step.nodes[0]], needs.plan.tasks[step.nodes[-1]]
    lines = " and ".join(str(line) for line in dict.fromkeys(step.lines))
    return f"{after.id} after {before.id} ({step.why}, line {lines})"


def _remove(step: _Step, needs: Needs) -> None:
    needs.successors[step.nodes[0]].remove(step.nodes[1])


def _keep_forward_edges(needs: Needs) -> None:
    """Keep only the edges in plan order among tasks that are still in cycles."""
    count = len(needs.plan.tasks)
    ordered = set(graph.order(needs.successors))
    for node, following in enumerate(needs.successors):
        if node in ordered:
            continue
        # A barrier has no place in the plan; without successors it is harmless.
        needs.successors[node] = [b for b in following if node < b < count] if node < count else []
