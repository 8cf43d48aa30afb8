"""What compiling a plan costs, and how far its schedule is from the theoretical limit."""

from __future__ import annotations

import random
import statistics
import time

from bench.figures import figure, median_ratio
from weft import graph
from weft.plan import compile as compile_plan
from weft.plan import read
from weft.planning.forecast import ForecastJob, ForecastWork, bounds, simulate, work_of

_PLANS = 200
_NOISE = 0.5  # sigma of the lognormal error of estimates


def plan_text(tasks: int) -> bytes:
    """A plan of phases of 50 tasks with five files each, some of them shared."""
    chance = random.Random(tasks)
    lines = ["# Plan"]
    for number in range(tasks):
        if number % 50 == 0:
            lines += ["", f"## Phase {number // 50 + 1}: part", "<!-- execution: parallel -->", ""]
        own = [f"src/p{number}/f{file}.py" for file in range(4)]
        shared = f"src/shared{chance.randrange(tasks)}.py"
        depends = f"; depends: task{number % 50}" if number % 50 and chance.random() < 0.2 else ""
        lines.append(f"- [ ] Task {number % 50 + 1}: do the work of part {number}")
        lines.append(f"  <!-- files: {', '.join([*own, shared])}{depends} -->")
    return "\n".join(lines).encode()


def compile_seconds(tasks: int) -> float:
    """Processor time to read, compile and prepare for the forecast."""
    text = plan_text(tasks)
    start = time.process_time()
    work = work_of(compile_plan(read("plan.md", text).plan))
    spent = time.process_time() - start
    assert len(work.jobs) >= tasks
    return spent


@figure("compile_10k_seconds", "s", at_most=1.0)
def compile_10k_seconds() -> float:
    return min(compile_seconds(10_000) for _ in range(5))


@figure("compile_growth", "ratio", at_most=12)
def compile_growth() -> float:
    return median_ratio(
        lambda: compile_seconds(10_000),
        lambda: statistics.mean(compile_seconds(1_000) for _ in range(5)),
    )


def random_work(seed: int, conflicted: float) -> tuple[ForecastWork, list[float], int]:
    """Estimated work, its real durations, and slots: a layered random graph with shared files."""
    chance = random.Random(seed)
    size = chance.randint(20, 500)
    slots = chance.choice([4, 8, 16, 32])
    real = [chance.lognormvariate(5.5, 0.7) for _ in range(size)]
    guess = [seconds * chance.lognormvariate(0.0, _NOISE) for seconds in real]
    successors: list[list[int]] = [[] for _ in range(size)]
    for node in range(1, size):
        for _ in range(chance.choice([0, 0, 1, 1, 2])):
            before = chance.randrange(max(0, node - 60), node)
            if node not in successors[before]:
                successors[before].append(node)
    claims: list[tuple[str, ...]] = [(f"own{node}.py",) for node in range(size)]
    sharing = chance.sample(range(size), int(size * conflicted))
    file = 0
    while sharing:
        file += 1
        for node in (sharing.pop() for _ in range(min(len(sharing), chance.randint(2, 6)))):
            claims[node] += (f"shared{file}.py",)
    jobs = tuple(
        ForecastJob(name=str(node), seconds=guess[node], claims=claims[node])
        for node in range(size)
    )
    return ForecastWork(jobs=jobs, successors=successors), real, slots


def with_durations(work: ForecastWork, durations: list[float]) -> ForecastWork:
    jobs = (
        ForecastJob(name=job.name, seconds=seconds, claims=job.claims)
        for job, seconds in zip(work.jobs, durations, strict=True)
    )
    return ForecastWork(jobs=tuple(jobs), successors=work.successors)


def makespan(work: ForecastWork, real: list[float], slots: int) -> float:
    return max(stint.end for stint in simulate(work, slots, durations=real))


def mean_ratio(conflicted: float) -> float:
    ratios = []
    for seed in range(_PLANS):
        work, real, slots = random_work(seed, conflicted)
        ratios.append(makespan(work, real, slots) / bounds(with_durations(work, real), slots).lower)
    return statistics.mean(ratios)


@figure("makespan_ratio", "ratio", at_most=1.05)
def makespan_ratio() -> float:
    return mean_ratio(0.25)


@figure("makespan_ratio_40", "ratio", at_most=1.15)
def makespan_ratio_40() -> float:
    return mean_ratio(0.40)


def _levels(successors: graph.Successors) -> list[list[int]]:
    """Return the nodes wave by wave: a wave starts when every earlier wave has ended."""
    counts = graph.waiting_counts(successors)
    wave = [node for node, count in enumerate(counts) if count == 0]
    waves = []
    while wave:
        waves.append(wave)
        following = []
        for node in wave:
            for after in successors[node]:
                counts[after] -= 1
                if counts[after] == 0:
                    following.append(after)
        wave = sorted(following)
    return waves


@figure("makespan_vs_barriers", "ratio", at_least=1.4)
def makespan_vs_barriers() -> float:
    """Topological levels with a barrier after each, as earlier tools run them, against ours."""
    ratios = []
    for seed in range(_PLANS):
        work, real, slots = random_work(seed, 0.25)
        total = 0.0
        for level in _levels(work.successors):
            jobs = tuple(work.jobs[node] for node in level)
            alone = ForecastWork(jobs=jobs, successors=[[] for _ in level])
            total += makespan(alone, [real[node] for node in level], slots)
        ratios.append(total / makespan(work, real, slots))
    return statistics.mean(ratios)
