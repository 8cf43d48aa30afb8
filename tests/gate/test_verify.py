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
from gate.gate_run import RUN, Stage, candidate, drive, make_project, run_git, task
from weft import git
from weft.gate.proof import verify
from weft.model import NewRun
from weft.project.own_repository import get_repository
from weft.store import default_url, open_store
from weft.store.gate import read_gate
from weft.store.runs import submit_run


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
    [line] = proved.stdout.splitlines()
    assert line.startswith(
        "✓ run r1: 1 task in 1 landing, each with exactly the tree that was checked by "
    )
    assert "! grep -rn broken src" in line
    assert proved.returncode == 0
    run_git(landed.root, "update-ref", "refs/heads/weft/r1", landed.base)
    refuted = weft(landed.root, "verify", RUN, "--json")
    assert refuted.returncode == 1
    told = json.loads(refuted.stdout)
    assert told["holds"] is False
    assert "does not contain" in told["problems"][0]


def test_an_object_store_that_appeared_is_refused(landed: Stage, tmp_path: Path) -> None:
    assert verify(landed.store, landed.root, RUN).holds
    info = landed.root / ".git" / "objects" / "info"
    info.mkdir(exist_ok=True)
    (tmp_path / "elsewhere").mkdir()
    (info / "alternates").write_text(f"{tmp_path / 'elsewhere'}\n")
    assert "elsewhere" in problems(landed)
    assert "git repack -a -d" in problems(landed)


def test_an_object_store_that_was_there_before_the_run_is_not(home: Path) -> None:
    root = make_project(home / "whole")
    run_git(home, "clone", "-q", "--shared", str(root), str(home / "borrower"))
    found = git.list_alternates(home / "borrower")
    assert found == (str(root / ".git" / "objects"),)
    with open_store(default_url(git.common_directory(home / "borrower"))) as store:
        repo = get_repository(home / "borrower", store)
        new = NewRun(id=RUN, repo=repo, base="HEAD", alternates=found)
        submit_run(store, new, [], now=0.0)
        assert verify(store, home / "borrower", RUN).holds


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
    trunk = landed.trunk
    run_git(landed.root, "update-ref", "-d", "refs/heads/weft/r1")
    assert "is gone" in problems(landed)
    run_git(landed.root, "merge", "-q", trunk)
    proof = verify(landed.store, landed.root, RUN)
    assert proof.problems == (), "`weft clean` removes a trunk that is merged"


def test_rows_that_do_not_fit_are_found(landed: Stage) -> None:
    nothing = "0" * 40
    [landing] = read_gate(landed.store, RUN).landings
    changes = [
        ("verdicts SET passed = 0", "verdicts SET passed = 1", "never passed"),
        (
            "tasks SET state = 'failed' WHERE name = 'a'",
            "tasks SET state = 'done' WHERE name = 'a'",
            "landed, but is failed",
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


@pytest.fixture
def at_once(home: Path) -> Iterator[Stage]:
    """A run of which three tasks have landed at once, each commit of them checked by itself."""
    root = make_project(home / "project")
    with open_store(f"sqlite:///{home / 'weft.db'}") as store:
        for run in ("before", RUN):  # the verdicts of the first are known in the second
            stage = Stage(store, root, run=run)
            stage.submit([task(name) for name in "abc"])
            for name in "abc":
                stage.bring(name, {f"src/{name}": f"{name} = 2\n"})
            drive(
                stage,
                lambda stage=stage: stage.are(a="done", b="done", c="done"),  # type: ignore[misc]  # bound now
                every_commit=True,
                slots=3,
            )
        yield stage


def test_where_every_commit_must_pass_each_one_is_proved(at_once: Stage) -> None:
    [landing] = read_gate(at_once.store, RUN).landings
    assert len(landing.commits) == 3
    assert verify(at_once.store, at_once.root, RUN).holds
    for commit in landing.commits[:2]:
        tree = run_git(at_once.root, "rev-parse", f"{commit}^{{tree}}")
        where = f"WHERE run = '{RUN}' AND tree = '{tree}'"
        change(at_once.store.url, f"UPDATE verdicts SET passed = 0 {where}")
        assert f"{tree} of commit {commit} never passed" in problems(at_once)
        change(at_once.store.url, f"UPDATE verdicts SET passed = 1 {where}")
    assert verify(at_once.store, at_once.root, RUN).holds


def test_a_commit_slipped_in_before_one_that_passed_is_found(at_once: Stage) -> None:
    """Trunk and rows are forged so that they fit each other, and end in the tree that passed.

    Weakened, only the last tree of a landing is looked at, and the proof holds.
    """
    [landing] = read_gate(at_once.store, RUN).landings
    slipped = candidate(at_once.root, at_once.base, {"src/a": "broken\n"}, "Slipped in")
    last = run_git(at_once.root, "commit-tree", landing.tree, "-p", slipped, "-m", "Change c")
    run_git(at_once.root, "update-ref", "refs/heads/weft/r1", last)
    commits = json.dumps([slipped, last, last])
    forged = f"new = '{last}', commits = '{commits}' WHERE run = '{RUN}'"
    change(at_once.store.url, f"UPDATE landings SET {forged}")
    assert f"of commit {slipped} never passed" in problems(at_once)
    change(at_once.store.url, "UPDATE landings SET every_commit = 0")
    assert verify(at_once.store, at_once.root, RUN).holds, "as if nobody had asked for it"
