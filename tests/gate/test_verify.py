"""`weft verify`: a proof from git and the store alone, and one that can fail."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from databases import change
from gate.landing import RUN, Stage, candidate, drive, make_project, run_git, task
from weft import git
from weft.gate.verify import verify
from weft.store import default_url, open_store
from weft.store.gate import read_gate


@pytest.fixture
def landed(home: Path) -> Iterator[Stage]:
    """A run of which one task has landed, in the store that commands find by themselves."""
    root = make_project(home / "project")
    with open_store(default_url(git.common_directory(root))) as store:
        stage = Stage(store, root)
        stage.submit([task("a"), task("b")])
        stage.bring("a", {"src/a": "a = 2\n"})
        drive(stage, lambda: stage.are(a="done"))
        yield stage


def problems(stage: Stage) -> str:
    [found] = verify(stage.store, stage.root, RUN).problems
    return found


def test_the_command_tells_what_was_proved(landed: Stage) -> None:
    proved = weft(landed.root, "verify", RUN)
    assert proved.stdout == "✓ run r1: 1 tasks in 1 landings, each one exactly what was checked\n"
    assert proved.returncode == 0
    run_git(landed.root, "update-ref", "refs/heads/weft/r1", landed.base)
    refuted = weft(landed.root, "verify", RUN, "--json")
    assert refuted.returncode == 1
    told = json.loads(refuted.stdout)
    assert told["holds"] is False
    assert "does not contain" in told["problems"][0]


def weft(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "weft", *arguments],
        cwd=directory,
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_what_weft_did_not_land_is_found(landed: Stage) -> None:
    more = candidate(landed.root, landed.trunk, {"x": "x\n"}, "More")
    run_git(landed.root, "update-ref", "refs/heads/weft/r1", more)
    assert "commits that weft did not land" in problems(landed)


def test_a_trunk_that_is_gone_is_found(landed: Stage) -> None:
    run_git(landed.root, "update-ref", "-d", "refs/heads/weft/r1")
    assert "is gone" in problems(landed)


def test_rows_that_do_not_fit_are_found(landed: Stage) -> None:
    nothing = "0" * 40
    [landing] = read_gate(landed.store, RUN).landings
    changes = [
        ("verdicts SET passed = 0", "verdicts SET passed = 1", "never passed"),
        (
            "tasks SET state = 'ready' WHERE name = 'a'",
            "tasks SET state = 'done' WHERE name = 'a'",
            "landed, but is ready",
        ),
        (
            "landings SET state = 'intended'",
            "landings SET state = 'landed'",
            "begun and not completed",
        ),
        (
            f"landings SET commits = '[\"{nothing}\"]'",
            f"landings SET commits = '[\"{landing.new}\"]'",
            "is not among",
        ),
        (
            f"landings SET tree = '{nothing}'",
            f"landings SET tree = '{landing.tree}'",
            f"not {nothing[:4]}",
        ),
    ]
    for wrong, right, told in changes:
        change(landed.store.url, f"UPDATE {wrong}")
        assert any(told in one for one in verify(landed.store, landed.root, RUN).problems), wrong
        change(landed.store.url, f"UPDATE {right}")
        assert verify(landed.store, landed.root, RUN).holds
    rest = "run, story, state, looked_at, base, tasks, work, needs, alone, at"
    change(landed.store.url, f"INSERT INTO entries SELECT '9.9', 9, {rest} FROM entries")
    assert "landed 2 times" in problems(landed)
