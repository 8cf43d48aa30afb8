"""Work in which everything collides: few places, shared files, needs, tenants and gangs."""

from __future__ import annotations

import random
import time

from weft.admission.capacity import attempt_demand
from weft.config import DEFAULT_LIMITS, Tuning
from weft.model import AgentFile, Class, NewRun, NewTask, NewWorker, Priority
from weft.store import Store
from weft.store.runs import submit_run
from weft.store.tasks import submit

HOST, BOOT, REPO, RUN = "here", "this boot", "repo", "plan"
USD = f"run:{RUN}/usd"
TUNING = Tuning(lease=0.4, bypasses=8, class_age=2, priority_age=5)
LIMITS = {**DEFAULT_LIMITS, "llm": 3, "requests": 5, "provider:acme": 2}
AGENTS = (
    AgentFile(name="smith", source="agents/smith.md", max_concurrency=2),
    AgentFile(name="joiner", source="agents/joiner.md", max_concurrency=3),
)
PROVIDERS = (None, "acme", "acme", "zenith")  # together they have the 3 of `llm`, acme alone 2
PATTERNS = (
    "src/a.py",
    "src/b.py",
    "src/c.py",
    "src/[ab].py",
    "src/*.py",
    "docs/index.md",
    "docs/**",
    "docs/*/index.md",
    "lib/x/y.py",
    "lib/*/y.py",
    "lib/z.py",
    "README.md",
)


def new_worker(name: str, slots: int, *, pid: int, pid_start: float) -> NewWorker:
    return NewWorker(
        id=name,
        slots=slots,
        host=HOST,
        boot=BOOT,
        pid=pid,
        pid_start=pid_start,
        agents=AGENTS,
        host_limits={"port": 2},
    )


def submit_work(store: Store, rng: random.Random, size: int) -> None:
    """A run and about as many ad-hoc tasks of two tenants, in all `size`."""
    now = time.time()
    of_run = size // 2
    names = [f"t{number}" for number in range(of_run)]
    tasks = [_task(rng, name, names[:number], RUN) for number, name in enumerate(names)]
    limits = {"agents": 3, "test": 2, "implement": 2, "usd": 20_000}
    gangs = [*_gang(names, "first"), *_gang(names, "second")]
    run = NewRun(id=RUN, repo=REPO, tenant="green", limits=limits)
    submit_run(store, run, tasks + gangs, now=now)
    earlier: list[str] = []
    for number in range(size - of_run - len(gangs)):
        task = _task(rng, f"s{number}", earlier, None)
        tenant = rng.choice(["red", "blue"])
        earlier.append(str(submit(store, task, repo=REPO, tenant=tenant, now=now)))


def _task(rng: random.Random, name: str, earlier: list[str], run: str | None) -> NewTask:
    agent = rng.choice([known.name for known in AGENTS])
    stage = rng.choice(["test", "implement"]) if run else None
    uses = {"host:@/port": 1} if rng.random() < 0.3 else {}
    if run and rng.random() < 0.5:
        uses[USD] = 100
    recent = earlier[-10:]
    needs = rng.sample(recent, min(len(recent), rng.choice([0, 0, 1, 2, 2])))
    return NewTask(
        name=name,
        files=tuple(sorted(rng.sample(PATTERNS, rng.choice([0, 1, 1, 2])))),
        demand=attempt_demand(
            run=run, stage=stage, agent=agent, provider=rng.choice(PROVIDERS), uses=uses
        ),
        needs=tuple(needs),
        klass=rng.choice(list(Class)),
        priority=rng.choice(list(Priority)),
        agent=agent,
        stage=stage,
        path_seconds=float(rng.randint(0, 5)),
    )


def _gang(names: list[str], gang: str) -> list[NewTask]:
    """Two tasks that start together, on a worker with two places."""
    demand = attempt_demand(run=RUN, stage=None, agent="joiner", provider=None)
    return [
        NewTask(
            name=f"{gang}-{file}",
            gang=gang,
            files=(file,),
            demand=demand,
            needs=(names[len(names) // 2],),
            agent="joiner",
        )
        for file in ("docs/index.md", "src/*.py")
    ]
