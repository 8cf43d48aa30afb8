"""Crowds: thousands that wait for one claim cost a handful of statements, and nobody is lost."""

from __future__ import annotations

import random

import pytest

from store_helpers import DONE, drain, go, hire, put, tuned, watched
from store_helpers import url as url
from weft.model import NewRun, NewTask
from weft.paths import conflicts
from weft.store import Store
from weft.store.admission import admit
from weft.store.attempt_end import finish
from weft.store.runs import submit_run

PATIENT = 10**6
"""So many bypasses that nothing is ever reserved."""


def crowd(size: int, held: str, *shared: str) -> list[NewTask]:
    """One that holds a pattern, many that want something within it, and one that does not."""
    many = [
        NewTask(name=f"t{number}", files=(f"src/m{number}.py", *shared), path_seconds=50)
        for number in range(size)
    ]
    holder = NewTask(name="holder", files=(held,), path_seconds=100)
    return [holder, *many, NewTask(name="free", files=("docs/a.md",), path_seconds=1)]


@pytest.mark.parametrize("shared", [(), ("z.md",)])
@pytest.mark.parametrize("held", ["src/**", "src/*.py", "src", "**/m*"])
def test_a_crowd_steps_aside_in_a_few_statements(
    store: Store, held: str, shared: tuple[str, ...]
) -> None:
    hire(store, slots=500)
    submit_run(store, NewRun(id="R", repo="r"), crowd(90, held, *shared), now=0)
    holder = go(store)
    writes: list[int] = []
    grant = go(watched(store, lambda: writes.append(1)))
    assert (holder.name, grant.name) == ("holder", "free")
    assert len(writes) < 80  # each of them would need one at least
    finish(store, holder.fence, DONE, now=2)
    names = drain(store)
    assert len(names) == (1 if shared else 90)


def test_who_comes_later_does_not_wait_behind_one_that_was_swept_aside(store: Store) -> None:
    hire(store, slots=500)
    put(store, "holder", files=("src/**",))
    go(store)
    for number in range(20):
        put(store, f"t{number}", files=(f"src/m{number}.py", f"z{number}.md"), now=1)
    assert drain(store, now=2) == []
    put(store, "newcomer", files=("z15.md",), now=3)
    assert drain(store, now=4) == ["newcomer"]


PATTERNS = ("a/x", "a/*", "a/**", "a", "b/?", "b/[0-4]*", "**/1*", "c")


@pytest.mark.parametrize("seed", range(4))
def test_crowds_hide_nobody_who_could_start(store: Store, seed: int) -> None:
    """Every admission is the one that a walk over all waiting tasks would choose."""
    dice = random.Random(seed)
    patient = tuned(store, bypasses=PATIENT)
    hire(store, slots=500)
    waiting: dict[int, tuple[str, ...]] = {}
    running: dict[int, tuple[int, tuple[str, ...]]] = {}

    def arrive(count: int) -> None:
        for _ in range(count):
            own = f"{dice.choice('ab')}/{len(waiting)}"
            extra = dice.choices(PATTERNS, k=dice.randint(0, 2))
            files = tuple({own, dice.choice([own, "log"]), *extra})
            waiting[put(store, files=files)] = files

    def first() -> int | None:
        held = [pattern for _, files in running.values() for pattern in files]
        return next(
            (
                task
                for task, files in sorted(waiting.items())
                if not any(conflicts(file, pattern) for file in files for pattern in held)
            ),
            None,
        )

    arrive(50)
    for step in range(50):
        expected = first()
        grants = admit(patient, "w", now=1)
        assert [grant.task for grant in grants] == ([] if expected is None else [expected])
        if expected is not None:
            running[expected] = (grants[0].fence, waiting.pop(expected))
        if expected is None or dice.random() < 0.4:
            ended = dice.choice(sorted(running))
            finish(store, running.pop(ended)[0], DONE, now=1)
        if step % 10 == 5:
            arrive(4)
