"""Invariant 20: a task starts from a base that contains every task it depends on.

Random plans go through the real admission, the real choice of a base, real git and the real gate.
Every candidate leaves a file of its own, so git alone says whose work a commit contains.
"""

from __future__ import annotations

import os
import random
import time

import pytest

from gate.gate_run import WORKER, Stage, candidate, drive, gate_site, run_git, task
from weft.attempt.base import choose
from weft.model import Grant, NewTask, Outcome, State
from weft.project.site import Site
from weft.store.admission import admit
from weft.store.attempt_end import finish
from weft.store.gate import read_gate
from weft.store.tasks import get_task, retry

SEEDS = range(100 if "WEFT_CHAOS" in os.environ else 2)
ROUNDS = 80


def invent(chance: random.Random) -> list[NewTask]:
    """Make tasks that need earlier ones and share files, and a story with needs inside it."""
    tasks: list[NewTask] = []
    known: list[str] = []

    def add(name: str, needs: set[str], story: str | None = None) -> None:
        shared = chance.sample(["src/a", "src/b", "src/c"], chance.choice([0, 1, 1, 2]))
        files = (f"made/{name}", *shared)
        tasks.append(task(name, *files, needs=tuple(sorted(needs)), story=story))

    def some() -> set[str]:
        return set(chance.sample(known, min(len(known), chance.choice([0, 1, 1, 2]))))

    for number in range(chance.randint(2, 4)):
        add(f"t{number}", some())
        known.append(f"t{number}")
    parts = [f"s.{letter}" for letter in "abc"[: chance.randint(2, 3)]]
    outside = some()  # a plan gives all subtasks what one of them needs from outside
    for place, part in enumerate(parts):
        add(part, outside | set(chance.sample(parts[:place], min(place, 1))), story="s")
    tasks.append(NewTask(name="s", needs=tuple(parts)))
    known.append("s")
    for number in range(4, chance.randint(5, 7)):
        add(f"t{number}", some())
        known.append(f"t{number}")
    return tasks


def needed_by(name: str, tasks: dict[str, NewTask]) -> set[str]:
    """Everything that must be in a task's base: what it needs, and what that needs."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        for need in tasks[waiting.pop()].needs:
            if need not in found:
                found.add(need)
                waiting.append(need)
    return {need for need in found if tasks[need].files}  # a story itself makes nothing


def made_in(stage: Stage, commit: str) -> set[str]:
    names = run_git(stage.root, "ls-tree", "-r", "--name-only", commit, "made/").split()
    return {name.removeprefix("made/") for name in names}


def work(stage: Stage, site: Site, grant: Grant, chance: random.Random) -> None:
    """Let an attempt end well, with work that fails its check, or with a crash."""
    begun = choose(site, get_task(stage.store, grant.task), grant)
    if chance.random() < 0.15:
        crash = Outcome(state=State.READY, kind="crash")
        finish(stage.store, grant.fence, crash, now=time.time())
        return
    word = "broken" if grant.attempt == 1 and chance.random() < 0.2 else "fine"
    files: dict[str, str | None] = dict.fromkeys(
        grant.files, f"{word} {grant.name}.{grant.attempt}\n"
    )
    commit = candidate(stage.root, begun.start, files, f"Change {grant.name}.{grant.attempt}")
    outcome = Outcome(state=State.GATING, candidate=commit, base=begun.base)
    finish(stage.store, grant.fence, outcome, now=time.time())


@pytest.mark.parametrize("seed", SEEDS)
def test_a_task_starts_from_a_base_that_contains_what_it_depends_on(
    stage: Stage, seed: int
) -> None:
    chance = random.Random(seed)
    tasks = {one.name: one for one in invent(chance)}
    stage.submit(list(tasks.values()))
    begun: set[str] = set()
    check = ("sh", "-c", "! grep -rn broken src made 2>/dev/null")
    open_grants: list[Grant] = []

    def is_settled() -> bool:
        entries = read_gate(stage.store, stage.run).entries
        return not any(entry.state in ("queued", "landing") for entry in entries)

    with gate_site(stage, run=check) as site:
        for _ in range(ROUNDS):
            while grants := admit(stage.store, WORKER, now=time.time()):
                for grant in grants:
                    start = choose(site, get_task(stage.store, grant.task), grant).start
                    assert needed_by(grant.name, tasks) <= made_in(stage, start), grant.name
                    begun.add(grant.name)
                open_grants += grants
            chance.shuffle(open_grants)
            for _ in range(chance.randint(min(1, len(open_grants)), len(open_grants))):
                work(stage, site, open_grants.pop(), chance)
            if chance.random() < 0.7 or not open_grants:
                drive(stage, is_settled, site=site)
            states = stage.states()
            for name in [name for name, state in states.items() if state == "blocked"]:
                retry(stage.store, stage.numbers[name], now=time.time())
            if set(states.values()) == {"done"}:
                break
    assert set(stage.states().values()) == {"done"}
    assert begun == {one.name for one in tasks.values() if one.files}
    assert made_in(stage, stage.trunk) == begun
