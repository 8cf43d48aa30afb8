"""The order of tasks: every edge of a plan except overlaps (rulings 1, 3 and 9).

`Needs` collects edges between the tasks of a plan, by their places in it. Where many tasks come
before many tasks, as with phases, the pairs would grow quadratically; these edges go through an
extra node, a barrier.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from weft.plan.plan_records import Barrier, Edge, EdgeReason, ItemKind, Plan, Reference

_DENSE: Final = 16
"""Pairs are written out as long as there are at most this many for each task concerned."""

_MOST_INHERITED: Final = 200_000


class Needs:
    """The growing graph; nodes are tasks by place, then barriers."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.at = {task.id: place for place, task in enumerate(plan.tasks)}
        self.phase_at = {phase.label: place for place, phase in enumerate(plan.phases)}
        self.phase_of = [self.phase_at[task.phase] for task in plan.tasks]
        self.members: list[list[int]] = [[] for _ in plan.phases]
        for place, phase in enumerate(self.phase_of):
            self.members[phase].append(place)
        self.successors: list[list[int]] = [[] for _ in plan.tasks]
        self.edges: dict[tuple[int, int], tuple[EdgeReason, tuple[int, ...]]] = {}
        self.barriers: list[tuple[list[int], list[int], EdgeReason, tuple[int, ...]]] = []

    def connect(
        self, before: Sequence[int], after: Sequence[int], why: EdgeReason, lines: tuple[int, ...]
    ) -> None:
        """Let every task of `before` come before every task of `after`."""
        if len(before) * len(after) <= _DENSE * (len(before) + len(after)):
            for a in before:
                for b in after:
                    self.add(a, b, why, lines)
            return
        node = len(self.successors)
        self.successors.append(list(after))
        for a in before:
            self.successors[a].append(node)
        self.barriers.append((list(before), list(after), why, lines))

    def add(self, a: int, b: int, why: EdgeReason, lines: tuple[int, ...]) -> None:
        """Add an edge; the first reason for it is kept."""
        if (a, b) not in self.edges:
            self.edges[a, b] = (why, lines)
            self.successors[a].append(b)

    def crosses_phases(self) -> bool:
        """Return whether an edge leads from phase to phase for another reason than their order."""
        return any(why is not EdgeReason.PHASE for _, _, why, _ in self.barriers) or any(
            why is not EdgeReason.PHASE and self.phase_of[a] != self.phase_of[b]
            for (a, b), (why, _) in self.edges.items()
        )

    def records(self) -> tuple[tuple[Edge, ...], tuple[Barrier, ...]]:
        ids = [task.id for task in self.plan.tasks]
        edges = tuple(
            Edge(before=ids[a], after=ids[b], why=why, lines=lines)
            for (a, b), (why, lines) in self.edges.items()
        )
        barriers = tuple(
            Barrier(
                before=tuple(ids[a] for a in before),
                after=tuple(ids[b] for b in after),
                why=why,
                lines=lines,
            )
            for before, after, why, lines in self.barriers
        )
        return edges, barriers


def add_explicit(needs: Needs) -> None:
    """Add the `depends` of tasks, and edges from parts to their wholes."""
    for place, task in enumerate(needs.plan.tasks):
        for reference in task.depends:
            needs.add(needs.at[reference.to], place, EdgeReason.EXPLICIT, (reference.line,))
        if task.parent is not None:
            needs.add(place, needs.at[task.parent], EdgeReason.PART, (task.line,))
    _add_inherited(needs)


def _add_inherited(needs: Needs) -> None:
    """Let the parts of a story or group wait for the needs of the whole; otherwise they start too
    early.

    The subtasks of a story also wait for the outside needs of every sibling: a story holds the
    files of all its subtasks from its first start until it lands, and a needed task may want the
    same files.
    """
    parts: dict[int, list[int]] = {}
    for place, task in enumerate(needs.plan.tasks):
        if task.parent is not None:
            parts.setdefault(needs.at[task.parent], []).append(place)
    left = _MOST_INHERITED
    for whole, own in parts.items():
        tasks = needs.plan.tasks
        sources = [
            tasks[whole],
            *(tasks[part] for part in own if tasks[part].kind is ItemKind.SUBTASK),
        ]
        depends = [reference for source in sources for reference in source.depends]
        if not depends or left <= 0:
            continue
        inside = list(own)
        within = {whole, *own}
        for part in inside:
            further = [each for each in parts.get(part, ()) if each not in within]
            within.update(further)
            inside.extend(further)
        left -= len(inside)
        before = {needs.at[each.to]: None for each in depends if needs.at[each.to] not in within}
        if before:
            needs.connect(list(before), inside, EdgeReason.EXPLICIT, (depends[0].line,))
        left -= len(before)


def add_sequential(needs: Needs) -> None:
    tasks = needs.plan.tasks
    parts: dict[str | None, list[int]] = {}
    for place, task in enumerate(tasks):
        if task.kind is ItemKind.SUBTASK:
            parts.setdefault(task.parent, []).append(place)
    for phase, members in zip(needs.plan.phases, needs.members, strict=True):
        if not phase.parallel:
            in_line = [place for place in members if tasks[place].kind is not ItemKind.SUBTASK]
            for a, b in pairwise(in_line):
                # The subtasks of a story take its place in the line, and are free among themselves.
                for after in (*parts.get(tasks[b].id, ()), b):
                    needs.add(a, after, EdgeReason.SEQUENTIAL, (tasks[a].line, tasks[after].line))


def list_phase_needs(needs: Needs) -> list[list[Reference]]:
    """Return the phases that each phase waits for, without those that follow from the rest.

    A phase that waits for all earlier phases names only the last phases among them.
    """
    waits_of_phases: list[list[Reference]] = []
    last: dict[str, None] = {}
    for phase in needs.plan.phases:
        if phase.depends is None:
            waits = [Reference(to=label, line=phase.line) for label in last]
            last = {}
        else:
            waits = list(phase.depends)
            for reference in waits:
                last.pop(reference.to, None)
        last[phase.label] = None
        waits_of_phases.append(waits)
    return waits_of_phases


def add_phases(needs: Needs, waits: list[list[Reference]]) -> None:
    """Let phases wait for phases, and tasks for whole phases."""
    entered, left = _inner_ends(needs)
    ends = [[place for place in own if not left[place]] for own in needs.members]
    starts = [[place for place in own if not entered[place]] for own in needs.members]
    phases = needs.plan.phases
    for place, references in enumerate(waits):
        for reference in references:
            before = needs.phase_at[reference.to]
            lines = (phases[before].line, reference.line)
            needs.connect(ends[before], starts[place], EdgeReason.PHASE, lines)
    for place, task in enumerate(needs.plan.tasks):
        for reference in task.depends_phases:
            before = needs.phase_at[reference.to]
            if before != needs.phase_of[place]:
                needs.connect(ends[before], [place], EdgeReason.EXPLICIT, (reference.line,))


def _inner_ends(needs: Needs) -> tuple[bytearray, bytearray]:
    """Return which tasks have a predecessor, and which have a successor, in their own phase."""
    entered = bytearray(len(needs.plan.tasks))
    left = bytearray(len(needs.plan.tasks))
    phase_of = needs.phase_of
    for a, b in needs.edges:
        if a != b and phase_of[a] == phase_of[b]:
            left[a] = 1
            entered[b] = 1
    return entered, left
