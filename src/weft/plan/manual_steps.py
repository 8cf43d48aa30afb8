"""Manual steps (ruling 9): tasks at which a person checks a phase that runs in parallel.

The manual steps of such a phase form a chain in plan order. Every other task of the phase comes
before the first link it does not itself depend on. A single edge per task suffices, since the later
links follow from the chain.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from weft import graph
from weft.plan.needs import Needs
from weft.plan.plan_records import EdgeReason

# Above this number of steps in a phase, only plan order counts.
_MOST_CHAINED: Final = 2000
# The most nodes visited, in all, to find the tasks that depend on manual steps.
_MOST_VISITS: Final = 500_000


def add_manual(needs: Needs) -> None:
    visits = _MOST_VISITS
    tasks = needs.plan.tasks
    # The graph before this ruling adds edges to it.
    successors = [list(following) for following in needs.successors]
    for phase, members in zip(needs.plan.phases, needs.members, strict=True):
        # Without a label there are no phases, and a person looks where the author said.
        if not phase.parallel or not phase.label:
            continue
        steps = [place for place in members if tasks[place].manual]
        if not steps:
            continue
        chain = _in_order(members, steps, successors)
        for a, b in pairwise(chain):
            needs.add(a, b, EdgeReason.MANUAL, (tasks[a].line, tasks[b].line))
        passed = _links_before(chain, successors, visits)
        visits -= len(passed)
        for place in members:
            if not tasks[place].manual and passed.get(place, 0) < len(chain):
                step = chain[passed.get(place, 0)]
                needs.add(place, step, EdgeReason.MANUAL, (tasks[place].line, tasks[step].line))


def _links_before(chain: list[int], successors: list[list[int]], visits: int) -> dict[int, int]:
    """Map each task that depends on a link to the number of links that come before it."""
    passed: dict[int, int] = {}
    for number in range(len(chain), 0, -1):
        waiting = [chain[number - 1]]
        while waiting and len(passed) < visits:
            for after in successors[waiting.pop()]:
                # Seen from a later link before, which counts for more.
                if after not in passed:
                    passed[after] = number
                    waiting.append(after)
    return passed


def _in_order(members: list[int], steps: list[int], successors: list[list[int]]) -> list[int]:
    """Return the manual steps in plan order, except where the plan itself turns it round."""
    if len(steps) > _MOST_CHAINED or not any(successors[step] for step in steps):
        return steps
    place = {node: at for at, node in enumerate(members)}
    local = [[place[after] for after in successors[node] if after in place] for node in members]
    among = [place[step] for step in steps]
    bit = {at: 1 << number for number, at in enumerate(among)}
    before = [0] * len(members)
    for at in graph.order(local):
        for after in local[at]:
            before[after] |= before[at] | bit.get(at, 0)
    numbers = range(len(among))
    turned = [[b for b in numbers if before[among[b]] >> a & 1] for a in numbers]
    return [steps[number] for number in graph.order(turned)]
