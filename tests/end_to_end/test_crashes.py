"""Killed again and again, a run comes to the same end as one that nobody disturbed."""

from __future__ import annotations

import functools
import json
import os
import random
import subprocess
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from databases import fresh_database
from end_to_end.run_observer import Watcher
from end_to_end.run_project import RunProject
from wait_until import PATIENCE, wait_until

pytestmark = pytest.mark.timeout(600)

PLAN = """# A run with everything in it

## Phase 1: Ground
<!-- execution: parallel -->

{ground}

## Phase 2: Beside it
<!-- execution: parallel -->
<!-- depends: -->

{beside}

## Phase 3: One after the other
<!-- execution: sequential -->
<!-- depends: phase1, phase2 -->

{after}
"""


def task(number: int, files: str, *script: str, depends: str = "") -> str:
    notes = f"  <!-- files: {files} -->\n"
    notes += f"  <!-- depends: {depends} -->\n" if depends else ""
    lines = "".join(f"  - script: {line}\n" for line in script)
    return f"- [ ] Task {number}: Do {files}\n{notes}{lines}"


def plan() -> str:
    """Twenty-four tasks: dependencies, shared files, rate limits, crashes, red checks."""
    ground = [
        task(n, f"src/g{n}", f"sleep 0.{n}", f"write src/g{n} ground {n}") for n in range(1, 7)
    ]
    ground += [
        task(7, "src/limited", "write src/limited a", "limit for 0.2", "append src/limited b"),
        task(8, "src/crashing", "attempt 1: crash KILL", "write src/crashing done"),
        task(9, "src/red", "write src/red good", "attempt 1: write src/red BROKEN"),
        task(10, "src/after", "write src/after 1 and 9", depends="task1, task9"),
    ]
    beside = [
        task(n, "src/shared", "sleep 0.1", f"replace src/shared line{n} => done{n}")
        for n in range(1, 6)
    ]
    beside += [
        # Says nothing of src/common, and changes it all the same.
        task(n, f"src/b{n}", f"write src/b{n} x", f"replace src/common here{n} => done{n}")
        for n in range(6, 9)
    ]
    beside += [task(9, "src/dir/**", "sleep 0.4", "write src/dir/a a", "write src/dir/b b")]
    after = [
        task(n, f"src/a{n}", f"write src/a{n} after", "say done", "sleep 0.1") for n in range(1, 6)
    ]
    return PLAN.format(ground="\n".join(ground), beside="\n".join(beside), after="\n".join(after))


def stories() -> str:
    """Twenty-one tasks: stories alone, in a row, and with subtasks that build on each other."""
    found: list[dict[str, Any]] = [
        {
            "id": f"S-{n}",
            "title": f"Alone {n}",
            "description": f"script: sleep 0.{n}\nscript: write src/s{n} alone",
            "files": [f"src/s{n}"],
            "depends_on": [f"S-{n - 1}"] if n in (4, 5) else [],
        }
        for n in range(1, 7)
    ]
    for n in range(7, 12):
        red = f"\nscript: attempt 1: write src/t{n}/b BROKEN" if n == 8 else ""
        limit = "script: limit for 0.2\n" if n == 9 else ""
        found.append(
            {
                "id": f"S-{n}",
                "title": f"In pieces {n}",
                "subtasks": [
                    {
                        "id": f"S-{n}.a",
                        "description": f"First\nscript: sleep 0.2\nscript: write src/t{n}/a a",
                        "files": [f"src/t{n}/a"],
                    },
                    {
                        "id": f"S-{n}.b",
                        "description": f"Beside\n{limit}script: write src/t{n}/b b{red}",
                        "files": [f"src/t{n}/b"],
                    },
                    {
                        "id": f"S-{n}.c",
                        "description": f"On top\nscript: append src/t{n}/a c",
                        "files": [f"src/t{n}/a"],
                        "depends_on": [f"S-{n}.a"],
                    },
                ],
            }
        )
    return json.dumps({"title": "Stories", "stories": found})


LANDED = {
    "plan.md": [
        f"{phase}.{n}" for phase, most in ((1, 10), (2, 9), (3, 5)) for n in range(1, most + 1)
    ],
    "prd.json": [f"S-{n}" for n in range(1, 7)]
    + [f"S-{n}.{part}" for n in range(7, 12) for part in "abc"],
}
"""The names of all tasks that land from each file."""


def make(project: RunProject) -> None:
    project.write(
        **{
            "src/shared": "".join(f"line{n}\n" for n in range(1, 6)),
            "src/common": "".join(f"here{n}\n" for n in range(6, 9)),
            "plan.md": plan(),
            "prd.json": stories(),
        }
    )
    project.commit()


Undisturbed = Callable[[str], str]
"""The tree that comes out of a file when nobody kills anything."""


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    return functools.cache(lambda file: _undisturbed(tmp_path_factory.mktemp("undisturbed"), file))


def _undisturbed(place: Path, file: str) -> str:
    project = RunProject(place)
    try:
        make(project)
        with project.untouched(), Watcher(project) as watcher:
            project.run(file, "--slots", "6")
        watcher.assert_saw_nothing()
        project.assert_landed_once(*LANDED[file])
        project.assert_nothing_left()
        return project.tree()
    finally:
        project.close()


def disturb(project: RunProject, file: str, chance: random.Random, kills: int) -> int:
    """Kill `weft run` at random moments, and go on each time; returns how often it was killed."""
    process = project.start("run", file, "--slots", "6")
    for number in range(kills):
        _wait_served(project, process)
        time.sleep(chance.uniform(0.0, 0.8) ** 2)
        if process.poll() is not None:
            out, err = process.communicate()
            assert process.returncode == 0, (out, err)
            return number
        project.kill(process, whole=chance.random() < 0.3)
        if project.rows("SELECT state FROM runs") == [{"state": "ended"}]:
            return number + 1
        process = project.start("run", "--resume")
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, (out, err)
    return kills


def _wait_served(project: RunProject, process: subprocess.Popen[str]) -> None:
    # A worker registers before it submits the run; a run that was never submitted ends nothing.
    question = "SELECT workers.id FROM workers, runs WHERE pid = ?"
    wait_until(lambda: process.poll() is not None or project.rows(question, process.pid))


def survive(project: RunProject, file: str, tree: str | None, seed: int, kills: int) -> int:
    make(project)
    with project.untouched(), Watcher(project) as watcher:
        killed = disturb(project, file, random.Random(seed), kills)
    watcher.assert_saw_nothing()
    if tree is not None:
        assert project.tree() == tree
    project.assert_landed_once(*LANDED[file])
    project.assert_nothing_left()
    return killed


def test_a_run_that_is_killed_again_and_again_ends_as_if_nobody_had(
    project: RunProject, undisturbed: Undisturbed
) -> None:
    assert survive(project, "plan.md", undisturbed("plan.md"), seed=1, kills=12) >= 4
    assert "[ ]" not in project.plan.read_text()


def test_whoever_is_killed_together_with_weft_has_not_failed(project: RunProject) -> None:
    """However often: three failures of its own would have blocked it."""
    go = project.root.parent / "go"
    steps = (f"until test -e {go}", "write src/a x")
    project.plan.write_text("## Phase 1: One\n\n" + task(1, "src/a", *steps))
    process = project.start("run", "plan.md")
    for _ in range(4):
        # Before the run begins, the check of its base is a marked process too.
        wait_until(lambda: not all(name.startswith("check.") for name in project.marked().values()))
        project.kill(process, whole=True)
        process = project.start("run", "--resume")
    go.touch()
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, (out, err)
    assert project.outcomes("1.1")[-1] == "success"
    assert project.rows("SELECT * FROM failures") == []
    project.assert_landed_once("1.1")
    project.assert_nothing_left()


def test_stories_that_are_killed_on_postgresql_land_whole(
    tmp_path: Path, postgres_server: str
) -> None:
    with fresh_database(postgres_server) as url:
        project = RunProject(tmp_path, url)
        try:
            assert survive(project, "prd.json", None, seed=2, kills=6) >= 3
            for n in range(1, 7):
                assert project.landed(f"src/s{n}") == "alone\n"
            for n in range(7, 12):
                both = project.landed(f"src/t{n}/a"), project.landed(f"src/t{n}/b")
                assert both == ("a\nc\n", "b\n")
        finally:
            project.close()


@pytest.mark.chaos
@pytest.mark.timeout(3600)
@pytest.mark.skipif("WEFT_CHAOS" not in os.environ, reason="the longer version: make chaos")
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_two_hundred_kills(
    tmp_path: Path, request: pytest.FixtureRequest, undisturbed: Undisturbed, kind: str
) -> None:
    killed = seed = 0
    while killed < 200:
        seed += 1
        file = ("plan.md", "prd.json")[seed % 2]
        with ExitStack() as stack:
            url = None
            if kind == "postgres":
                server = request.getfixturevalue("postgres_server")
                url = stack.enter_context(fresh_database(server))
            project = RunProject(tmp_path / str(seed), url)
            stack.callback(project.close)
            killed += survive(project, file, undisturbed(file), seed=seed, kills=20)
