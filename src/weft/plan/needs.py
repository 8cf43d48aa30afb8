"""The order of tasks: every edge of a plan except overlaps (rulings 1, 3 and 9).

`Needs` collects edges between the tasks of a plan, by their places in it. Where many tasks come
before many tasks, as with phases, the pairs would grow quadratically; these edges go through an
extra node, a barrier.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from weft import graph
from weft.plan.plan_records import Barrier, Edge, EdgeReason, ItemKind, Plan, Reference
from weft.plan.problems import Problems

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
