"""The forecast of a schedule: the plan's graph, run in simulated time by the real policy.

The order is `admission.order`, over the same longest paths that the store gets. Files exclude each
other as claims do, tasks that share a file keep plan order, and a gang starts together or not at
all. Checks hold files and dependents, and no slot; retries are part of the estimates. The forecast
leaves out rate limits, which cannot be known.
"""

from __future__ import annotations

import heapq
import statistics
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from weft import graph
from weft.admission.order import QueueEntry, Rank, Urgency, rank, urgency
from weft.config import Tuning
from weft.model import Class, Priority
from weft.paths import Index
from weft.plan.plan_json import DEFAULT_SECONDS
from weft.plan.plan_records import Compiled, ItemKind, PlanTask

WHOLE: Final = "**"

_WORTH_SAYING: Final = 1.0


class ForecastJob(Struct, frozen=True, kw_only=True):
    """A task as the simulation sees it."""

    name: str
    seconds: float
    tail: float = 0.0  # seconds of its check, which takes no slot; its files stay claimed
    runs: bool = True  # takes a slot; a person's answer and a mere barrier do not
    claims: tuple[str, ...] = ()
    klass: Class = Class.STANDARD
    priority: Priority = Priority.NORMAL
    gang: str | None = None
    labels: frozenset[str] = frozenset()  # that its worker must have


class ForecastWork(Struct, frozen=True, kw_only=True):
    """Jobs in a graph: node i is the i-th job, and an edge leads to a job that waits for it."""

    jobs: tuple[ForecastJob, ...]
    successors: graph.Successors
    rooms: Mapping[frozenset[str], int] = {}  # slots with these labels; a set left out: as many


class Stint(Struct, frozen=True, kw_only=True):
    """The time of a job on a slot."""

    name: str
    slot: int
    start: float
    end: float


class ScheduleBounds(Struct, frozen=True, kw_only=True):
    """Durations that no schedule can fall below."""

    critical_path: float
    work_per_slot: float
    busiest_file: float
    file: str  # the busiest file; empty if no two tasks share a file

    @property
    def lower(self) -> float:
        return max(self.critical_path, self.work_per_slot, self.busiest_file)


class Saving(Struct, frozen=True, kw_only=True):
    """The seconds that a run would save if its tasks shared no such file."""

    file: str
    tasks: tuple[str, ...]
    seconds: float


class Forecast(Struct, frozen=True, kw_only=True):
    schedule: tuple[Stint, ...]
    bounds: ScheduleBounds
    slots: int
    seconds: float  # until the last job has landed

    @property
    def at_once(self) -> int:
        """The number of jobs at the busiest moment."""
        changes = [(stint.start, 1) for stint in self.schedule]
        changes += [(stint.end, -1) for stint in self.schedule]
        return max(accumulate(change for _, change in sorted(changes)), default=0)


def estimate(samples: Sequence[tuple[int, float]], size: int) -> float | None:
    """Estimate the seconds of a task of that many files from recorded (size, seconds).

    Return the median of the nine samples nearest in size: a few slow attempts do not spoil it.
    """
    if not samples:
        return None
    nearest = sorted(samples, key=lambda sample: abs(sample[0] - size))[:9]
    return statistics.median(seconds for _, seconds in nearest)


def work_of(
    compiled: Compiled,
    seconds: Mapping[str, float] | None = None,
    *,
    check: float = 0.0,
    person: float = 0.0,
) -> ForecastWork:
    """Return the jobs of a plan; `seconds` are the known estimates by task."""
    known = seconds or {}
    gangs = {name: group[0] for group in compiled.groups for name in group}
    jobs = [
        _job(task, known, gangs.get(task.id), check=check, person=person)
        for task in compiled.plan.tasks
    ]
    barriers = [ForecastJob(name="", seconds=0.0, runs=False) for _ in compiled.barriers]
    # A settled task is met from the start, also if a task that it needed is not.
    settled = {place for place, task in enumerate(compiled.plan.tasks) if task.settled}
    successors = [
        [after for after in following if after not in settled] if settled else following
        for following in compiled.successors
    ]
    return ForecastWork(jobs=(*jobs, *barriers), successors=successors)


def _job(
    task: PlanTask,
    seconds: Mapping[str, float],
    gang: str | None,
    *,
    check: float,
    person: float,
) -> ForecastJob:
    idle = task.settled or task.manual or task.kind in (ItemKind.STORY, ItemKind.EPIC)
    asks = task.manual and not task.settled
    return ForecastJob(
        name=task.id,
        seconds=(person if asks else 0.0) if idle else seconds.get(task.id, DEFAULT_SECONDS),
        tail=check if task.claims and not idle else 0.0,
        runs=not idle,
        claims=() if idle else task.claims,
        klass=task.klass,
        priority=task.priority,
        gang=None if idle else gang,
        labels=frozenset(() if idle else task.needs_labels),
    )


def paths(work: ForecastWork) -> list[float]:
    """Return the longest remaining path of each job, with a tail for every file it shares.

    Jobs that share a file run one after the other in plan order, so each job counts as if the next
    job needed it; the jobs before it inherit that.
    """
    longest = [job.seconds + job.tail for job in work.jobs]
    tails: dict[str, float] = {}  # by pattern, the path of the next job that shares it
    for node in reversed(graph.order(work.successors)):
        claims = work.jobs[node].claims
        behind = [longest[after] for after in work.successors[node]]
        behind += [tails[pattern] for pattern in claims if pattern in tails]
        longest[node] += max(behind, default=0.0)
        tails.update(dict.fromkeys(claims, longest[node]))
    return longest


def _sharers(work: ForecastWork) -> dict[str, list[int]]:
    """Map each pattern that several jobs claim to these jobs."""
    sharers: dict[str, list[int]] = {}
    for node, job in enumerate(work.jobs):
        for pattern in dict.fromkeys(job.claims):
            sharers.setdefault(pattern, []).append(node)
    return {pattern: nodes for pattern, nodes in sharers.items() if len(nodes) > 1}


def bounds(work: ForecastWork, slots: int) -> ScheduleBounds:
    seconds = [job.seconds + job.tail for job in work.jobs]
    alone = {node for node, job in enumerate(work.jobs) if WHOLE in job.claims}
    elsewhere = sum(seconds[node] for node in alone)
    loads = {
        pattern: elsewhere + sum(seconds[node] for node in nodes if node not in alone)
        for pattern, nodes in _sharers(work).items()
    }
    busiest = max(loads, key=lambda pattern: (loads[pattern], pattern), default="")
    return ScheduleBounds(
        critical_path=max(graph.remaining_paths(work.successors, seconds), default=0.0),
        work_per_slot=sum(job.seconds for job in work.jobs if job.runs) / slots,
        busiest_file=loads.get(busiest, 0.0),
        file=busiest,
    )


def forecast(work: ForecastWork, slots: int, *, tuning: Tuning | None = None) -> Forecast:
    simulation = _Simulation(work, slots, [job.seconds for job in work.jobs], tuning or Tuning())
    return Forecast(
        schedule=simulation.run(), bounds=bounds(work, slots), slots=slots, seconds=simulation.now
    )


def savings(work: ForecastWork, slots: int, *, most: int = 3, tries: int = 12) -> list[Saving]:
    """List the shared files that cost the run most; the busiest files are tried."""
    now = forecast(work, slots)
    before = now.seconds
    if before - max(now.bounds.critical_path, now.bounds.work_per_slot) < _WORTH_SAYING:
        return []
    shared = _sharers(work)
    loads = {p: sum(work.jobs[node].seconds for node in nodes) for p, nodes in shared.items()}
    results = []
    for pattern in sorted(loads, key=lambda file: (-loads[file], file))[:tries]:
        without = tuple(
            replace(job, claims=tuple(claim for claim in job.claims if claim != pattern))
            for job in work.jobs
        )
        saved = before - forecast(replace(work, jobs=without), slots).seconds
        if saved >= _WORTH_SAYING:
            names = tuple(work.jobs[node].name for node in shared[pattern])
            results.append(Saving(file=pattern, tasks=names, seconds=saved))
    return sorted(results, key=lambda saving: -saving.seconds)[:most]


def simulate(
    work: ForecastWork,
    slots: int,
    *,
    durations: Sequence[float] | None = None,
    tuning: Tuning | None = None,
) -> tuple[Stint, ...]:
    """Run the work in simulated time; `durations` replace the estimates of the jobs."""
    real = durations or [job.seconds for job in work.jobs]
    return _Simulation(work, slots, real, tuning or Tuning()).run()


class _Simulation:
    """A run at a moment of simulated time: ready jobs, held files and free slots."""

    def __init__(
        self, work: ForecastWork, slots: int, durations: Sequence[float], tuning: Tuning
    ) -> None:
        self._work = work
        self._durations = durations
        self._tuning = tuning
        self._paths = paths(work)
        self._waiting = graph.waiting_counts(work.successors)
        self._now = 0.0
        self._free = list(range(slots))
        self._slot: dict[int, int] = {}
        self._held: Index[int] = Index()
        self._aside: dict[int, list[int]] = {}  # waiting jobs, by the job they wait for
        self._aged = (0, 0)  # the steps by which classes and priorities have risen
        self._wanted = _Wanted(work)
        self._ready: dict[tuple[Class, Priority, frozenset[str]], list[tuple[float, int]]] = {}
        self._labelled: Counter[frozenset[str]] = Counter()  # slots in use, by a set of `rooms`
        self._running: list[tuple[float, int]] = []
        self._gangs = _gangs(work, slots)
        # A job does not queue behind a gang: the gang may queue behind that job, for another file.
        self._in_gangs = {node for members in self._gangs.values() for node in members}
        self._gang_ready: dict[str, set[int]] = {}
        self._stints: list[Stint] = []

    @property
    def now(self) -> float:
        """The end of the last job, its check included, once `run` has returned."""
        return self._now

    def run(self) -> tuple[Stint, ...]:
        for node, count in enumerate(self._waiting):
            if count == 0:
                self._become_ready(node)
        while True:
            # Finish every job that ends now before the next admission, so that all the jobs that
            # waited for them are ordered together.
            while self._running and self._running[0][0] <= self._now:
                self._finish(heapq.heappop(self._running)[1])
            self._age()
            self._admit()
            if not self._running:
                return tuple(self._stints)
            self._now = self._running[0][0]

    def _age(self) -> None:
        """Let all waiting jobs queue again once ageing may have changed their order.

        Otherwise two jobs could wait for each other, each put aside by another order.
        """
        age = (
            min(max(Class), int(self._now // self._tuning.class_age)),
            min(max(Priority), int(self._now // self._tuning.priority_age)),
        )
        if age != self._aged:
            self._aged = age
            aside, self._aside = self._aside, {}
            for node in (node for nodes in aside.values() for node in nodes):
                self._push(node)

    def _become_ready(self, node: int) -> None:
        job = self._work.jobs[node]
        if not job.runs:
            heapq.heappush(self._running, (self._now + self._durations[node], node))
            return
        together = {node}
        if job.gang is not None and job.gang in self._gangs:
            together = self._gang_ready.setdefault(job.gang, set())
            together.add(node)
            if len(together) < len(self._gangs[job.gang]):
                return
        for member in together:
            self._wanted.add(member)
        self._push(min(together, key=lambda job: (-self._paths[job], job)))

    def _push(self, node: int) -> None:
        job = self._work.jobs[node]
        heap = self._ready.setdefault((job.klass, job.priority, job.labels), [])
        heapq.heappush(heap, (-self._paths[node], node))

    def _admit(self) -> None:
        """Start the jobs that can start, best first; each class, priority and set of labels has
        its heap."""
        skipped: list[int] = []  # the first member of each gang that needs more slots than are free
        while self._free:
            heaps = [heap for key, heap in self._ready.items() if heap and self._has_room(key[2])]
            if not heaps:
                break
            heap = min(heaps, key=lambda jobs: self._rank(jobs[0][1]))
            _, node = heapq.heappop(heap)
            members = self._gangs.get(self._work.jobs[node].gang or "", [node])
            # Wait for the nearest earlier job, not for the holder of the file: otherwise the end of
            # each job would wake every job that waits for the file.
            first = self._wanted.find_before(members, self._now, self._tuning, self._in_gangs)
            if first is None:
                first = self._in_the_way(members)
            if first is not None:
                self._aside.setdefault(first, []).append(node)
            elif len(members) > len(self._free):
                skipped.append(node)
            else:
                for member in members:
                    self._start(member)
        for node in skipped:
            self._push(node)

    def _has_room(self, labels: frozenset[str]) -> bool:
        rooms = self._work.rooms
        return not labels or all(
            self._labelled[room] < rooms[room] for room in rooms if room <= labels
        )

    def _count_labels(self, node: int, change: int) -> None:
        """Add a job to the slots in use with its labels (1), or subtract it (-1)."""
        labels = self._work.jobs[node].labels
        for room in self._work.rooms if labels else ():
            if room <= labels:
                self._labelled[room] += change

    def _rank(self, node: int) -> Rank:
        job = self._work.jobs[node]
        entry = QueueEntry(
            id=node,
            klass=job.klass,
            priority=job.priority,
            path_seconds=self._paths[node],
            submitted=0.0,
        )
        return rank(entry, self._now, self._tuning)

    def _in_the_way(self, members: Sequence[int]) -> int | None:
        return next(
            (
                holder
                for member in members
                for claim in self._work.jobs[member].claims
                for _, holder in self._held.find(claim)
            ),
            None,
        )

    def _start(self, node: int) -> None:
        self._wanted.remove(node)
        for claim in self._work.jobs[node].claims:
            self._held.add(claim, node)
        self._count_labels(node, 1)
        slot = heapq.heappop(self._free)
        self._slot[node] = slot
        end = self._now + self._durations[node]
        heapq.heappush(self._running, (end, node))
        name = self._work.jobs[node].name
        self._stints.append(Stint(name=name, slot=slot, start=self._now, end=end))

    def _finish(self, node: int) -> None:
        job = self._work.jobs[node]
        if node in self._slot:
            heapq.heappush(self._free, self._slot.pop(node))
            self._count_labels(node, -1)
            if job.tail:  # its check begins; `_finish` is called again at its end
                heapq.heappush(self._running, (self._now + job.tail, node))
                return
        if job.runs:
            self._held.remove(node)
            for follower in self._aside.pop(node, ()):
                self._push(follower)
        for after in self._work.successors[node]:
            self._waiting[after] -= 1
            if self._waiting[after] == 0:
                self._become_ready(after)


class _Wanted:
    """The files of ready jobs, indexed so that a later job finds the jobs before it."""

    def __init__(self, work: ForecastWork) -> None:
        self._jobs = work.jobs
        self._patterns: Index[str] = Index()
        # By pattern, then by class and priority: the jobs that want it, in plan order.
        self._nodes: dict[str, dict[tuple[Class, Priority], list[int]]] = {}

    def add(self, node: int) -> None:
        job = self._jobs[node]
        for pattern in dict.fromkeys(job.claims):
            if pattern not in self._nodes:
                self._nodes[pattern] = {}
                self._patterns.add(pattern, pattern)
            insort(self._nodes[pattern].setdefault((job.klass, job.priority), []), node)

    def remove(self, node: int) -> None:
        job = self._jobs[node]
        for pattern in dict.fromkeys(job.claims):
            kinds = self._nodes[pattern]
            nodes = kinds[job.klass, job.priority]
            del nodes[bisect_left(nodes, node)]
            if not nodes:
                del kinds[job.klass, job.priority]
            if not kinds:
                del self._nodes[pattern]
                self._patterns.remove(pattern)

    def find_before(
        self, members: Sequence[int], now: float, tuning: Tuning, passable: Iterable[int]
    ) -> int | None:
        """Find the nearest ready job that goes before these jobs and shares a file with any of
        them."""

        def urgent(klass: Class, priority: Priority) -> Urgency:
            return urgency(klass, priority, 0.0, now, tuning)

        own, first = min(
            (urgent(self._jobs[node].klass, self._jobs[node].priority), node) for node in members
        )
        claims = [claim for member in members for claim in self._jobs[member].claims]
        for pattern in (pattern for claim in claims for pattern, _ in self._patterns.find(claim)):
            for kind, nodes in self._nodes[pattern].items():
                theirs = urgent(*kind)
                end = bisect_left(nodes, first) if theirs == own else len(nodes) * (theirs < own)
                for at in range(end - 1, -1, -1):
                    if nodes[at] not in members and nodes[at] not in passable:
                        return nodes[at]
        return None


def _gangs(work: ForecastWork, slots: int) -> dict[str, list[int]]:
    """Map each gang that fits into the slots to its jobs."""
    gangs: dict[str, list[int]] = {}
    for node, job in enumerate(work.jobs):
        if job.gang is not None:
            gangs.setdefault(job.gang, []).append(node)
    return {name: members for name, members in gangs.items() if len(members) <= slots}
