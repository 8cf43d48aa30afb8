"""The existing order of two tasks.

The question comes up for every pair that shares a file, so it must be cheap. Phases answer most
cases, two different sortings of the graph tell most unrelated tasks apart, and a search between the
two tasks answers the rest. The search is limited: a wrong "no" only adds an unneeded overlap, and
`sure` is False after it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from weft import graph
from weft.plan.needs import Needs
from weft.plan.plan_records import ItemKind, Reference

_MOST_PHASES: Final = 4096
_FAR: Final = 2000
_WORK_PER_NODE: Final = 40


class Ordering:
    def __init__(self, needs: Needs, waits: list[list[Reference]]) -> None:
        """Look at a graph without cycles."""
        successors = needs.successors
        self.order = graph.order(successors)
        self._successors = successors
        self._rank = _ranks(self.order)
        self._late = _ranks(graph.late_order(successors))
        self._behind = graph.predecessors(successors)
        self._phase_of = needs.phase_of
        self._stories = [
            task.parent if task.kind is ItemKind.SUBTASK else None for task in needs.plan.tasks
        ]
        self._settled = {place for place, task in enumerate(needs.plan.tasks) if task.settled}
        self._sequential = [not phase.parallel for phase in needs.plan.phases]
        self._earlier = _earlier_phases(needs, waits)
        # If only phases lead from phase to phase, a search stays inside a phase.
        self._crossing = needs.crosses_phases()
        self._left = _WORK_PER_NODE * len(successors) + 10_000
        self.sure = True  # False once a search was given up

    def related(self, a: int, b: int) -> bool:
        """Return whether the tasks have an order, in either direction."""
        phase_a, phase_b = self._phase_of[a], self._phase_of[b]
        if phase_a == phase_b:
            if self._sequential[phase_a] and not self._are_siblings(a, b):
                return True
        elif self._earlier[phase_a] >> phase_b & 1 or self._earlier[phase_b] >> phase_a & 1:
            return True
        elif not self._crossing and len(self._earlier) <= _MOST_PHASES:
            return False
        if self._rank[a] > self._rank[b]:
            a, b = b, a
        return self._late[a] < self._late[b] and self._leads_to(a, b)

    def is_ready_with(self, a: int, b: int) -> bool:
        """Return whether task `a` is ready for sure whenever task `b` is."""
        own = [place for place in self._behind[a] if place not in self._settled]
        return set(own) <= set(self._behind[b])

    def _are_siblings(self, a: int, b: int) -> bool:
        return self._stories[a] is not None and self._stories[a] == self._stories[b]

    def _leads_to(self, a: int, b: int) -> bool:
        rank, late, phase_of = self._rank, self._late, self._phase_of
        inside = None if self._crossing else phase_of[b]
        floor, late_floor = rank[a], late[a]
        seen = {b}
        waiting = [b]
        left = min(_FAR, self._left)
        while waiting and left > 0:
            for before in self._behind[waiting.pop()]:
                left -= 1
                self._left -= 1
                if before == a:
                    return True
                if (
                    rank[before] > floor
                    and late[before] > late_floor
                    and before not in seen
                    and (inside is None or (before < len(phase_of) and phase_of[before] == inside))
                ):
                    seen.add(before)
                    waiting.append(before)
        self.sure = self.sure and not waiting
        return False

    def related_within(self, nodes: Iterable[int]) -> bool:
        """Return whether any two of these tasks have an order."""
        own = set(nodes)
        ceiling = max(self._rank[node] for node in own)
        seen = set(own)
        waiting = list(own)
        while waiting and self._left > 0:
            for after in self._successors[waiting.pop()]:
                self._left -= 1
                if after in own:
                    return True
                if after not in seen and self._rank[after] < ceiling:
                    seen.add(after)
                    waiting.append(after)
        return False


def _ranks(order: list[int]) -> list[int]:
    ranks = [0] * len(order)
    for rank, node in enumerate(order):
        ranks[node] = rank
    return ranks


def _earlier_phases(needs: Needs, waits: list[list[Reference]]) -> list[int]:
    """Return for each phase all that come before it, as the bits of a number."""
    count = len(waits)
    earlier = [0] * count
    if count > _MOST_PHASES:
        return earlier
    successors: list[list[int]] = [[] for _ in waits]
    for place, references in enumerate(waits):
        for reference in references:
            successors[needs.phase_at[reference.to]].append(place)
    for phase in graph.order(successors):
        mask = earlier[phase] | 1 << phase
        for after in successors[phase]:
            earlier[after] |= mask
    return earlier
