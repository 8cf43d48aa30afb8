"""The chart, the warning and the run agree on who goes first (PLANS.md ruling 7)."""

from __future__ import annotations

import heapq
import random
import re
from collections.abc import Mapping, Sequence

from store_helpers import DONE, hire
from store_helpers import url as url
from weft import plan
from weft.model import NewRun, NewTask
from weft.plan.plan_records import Compiled, EdgeReason
from weft.planning import forecast
from weft.store import Store
from weft.store.admission import admit
from weft.store.attempt_end import finish
from weft.store.runs import end_finished, submit_run

FILES = ["a", "b", "c", "src/x.py", "src/**", "src/*.py"]
PRIORITIES = ["", "; priority: high", "; priority: low", "; class: batch", "; class: interactive"]
SLOTS = 16


def random_plan(rng: random.Random) -> Compiled:
    """A parallel phase, and a later phase that may start at once, of tasks that share files."""
    lines = ["## Phase 1: One", "<!-- execution: parallel -->"]
    count = rng.randint(3, 9)
    for number in range(1, count + 1):
        if number == count - 1 and rng.random() < 0.5:
            lines += ["## Phase 2: Two", "<!-- execution: parallel; depends: -->"]
        files = ", ".join(rng.sample(FILES, rng.randint(1, 2)))
        depends = [f"t{n}" for n in range(1, number) if rng.random() < 0.15]
        needs = f"; depends: {', '.join(depends)}" if depends else ""
        mark = "x" if rng.random() < 0.1 else " "
        lines += [
            f"- [{mark}] Do it",
            f"  <!-- id: t{number}; files: {files}{needs}{rng.choice(PRIORITIES)} -->",
        ]
    parsed = plan.read("plan.md", "\n".join(lines).encode())
    compiled = plan.compile(parsed.plan)
    assert not [each for each in parsed.problems if each.severity is plan.Severity.ERROR]
    return compiled


def run_in_store(
    store: Store, number: int, compiled: Compiled, durations: Mapping[str, float]
) -> dict[str, float]:
    """Admit the plan as a worker with room for all of it does; return when each task started."""
    open_tasks = {task.id: task for task in compiled.plan.tasks if not task.settled}
    needs: dict[str, list[str]] = {id: [] for id in open_tasks}
    for edge in compiled.edges:
        if edge.why is not EdgeReason.OVERLAP and {edge.before, edge.after} <= open_tasks.keys():
            needs[edge.after].append(edge.before)
    ids = (task.id for task in compiled.plan.tasks)
    paths = dict(zip(ids, forecast.paths(forecast.work_of(compiled)), strict=False))
    tasks = [
        NewTask(
            name=id,
            files=task.claims,
            needs=tuple(needs[id]),
            klass=task.klass,
            priority=task.priority,
            path_seconds=paths[id],
        )
        for id, task in open_tasks.items()
    ]
    begin = now = number * 100_000.0
    submit_run(store, NewRun(id=f"r{number}", repo=f"r{number}"), tasks, now=now)
    starts, running = dict[str, float](), list[tuple[float, int]]()
    while True:
        while grants := admit(store, "w", now=now):
            for grant in grants:
                starts[grant.name] = now - begin
                heapq.heappush(running, (now + durations[grant.name], grant.fence))
        if not running:
            assert end_finished(store, now=now) == [f"r{number}"]
            return starts
        now = running[0][0]
        while running and running[0][0] <= now:
            finish(store, heapq.heappop(running)[1], DONE, now=now)


def chart(compiled: Compiled, durations: Mapping[str, float]) -> dict[str, float]:
    work = forecast.work_of(compiled)
    real = [durations.get(job.name, 0.0) if job.runs else 0.0 for job in work.jobs]
    return {stint.name: stint.start for stint in forecast.simulate(work, SLOTS, durations=real)}


def promises(compiled: Compiled) -> Sequence[tuple[str, str]]:
    """The pairs of which a warning says that the first goes first."""
    pairs = []
    for problem in compiled.problems:
        told = re.match(r"(\w+) \(line \d+\) and (\w+) may.* and (\w+) goes first", problem.message)
        if problem.code == "overlap" and told:
            assert told[3] == told[1]
            pairs.append((told[1], told[2]))
    return pairs


def test_the_chart_the_warning_and_the_run_agree_on_who_goes_first(store: Store) -> None:
    hire(store, slots=SLOTS)
    rng = random.Random(7)
    promised = 0
    for number in range(30):
        compiled = random_plan(rng)
        durations = {task.id: float(rng.choice([60, 60, 90, 200])) for task in compiled.plan.tasks}
        run = run_in_store(store, number, compiled, durations)
        drawn = chart(compiled, durations)
        assert run == drawn, compiled.plan.tasks
        for first, second in promises(compiled):
            promised += 1
            assert run[first] < run[second]
    assert promised > 20
