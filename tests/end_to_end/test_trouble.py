"""Trouble from outside: no disk, no git, no database, no plan. Said clearly, and gone on from."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from chaos import CHAOS
from dying_git import DyingGit
from end_to_end.run_project import RunProject
from repositories import git, listing
from wait_until import PATIENCE, wait_until
from weft.workspace.place import find_place

pytestmark = pytest.mark.timeout(600)


def plan(count: int = 3, seconds: float = 0.5, *, until: Path | None = None) -> str:
    """Tasks that may run at once; each sleeps, or waits for the file `until`, and then writes."""
    pause = f"sleep {seconds}" if until is None else f"wait {until}"
    tasks = [
        f"- [ ] Task {n}: Do {n}\n  <!-- files: src/p{n} -->\n"
        f"  - script: {pause}\n  - script: write src/p{n} x\n"
        for n in range(1, count + 1)
    ]
    return "## Phase 1: All\n<!-- execution: parallel -->\n\n" + "\n".join(tasks)


def fill(place: Path) -> Path:
    """Write a file that takes all the room of a file system, and return it."""
    ballast = place / "ballast"
    with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(b"x" * 4096)
    return ballast


def wait_said(process: subprocess.Popen[str], text: str) -> str:
    """Wait until the process has said this on standard error; return all it said there so far."""
    assert process.stderr is not None
    said = b""
    while text not in said.decode(errors="replace"):
        ready, _, _ = select.select([process.stderr], [], [], PATIENCE)
        piece = os.read(process.stderr.fileno(), 65536) if ready else b""
        assert piece, f"it never said {text!r}, but {said.decode(errors='replace')!r}"
        said += piece
    return said.decode(errors="replace")


def assert_plainly_said(text: str) -> None:
    assert text.startswith("weft: "), text
    assert "Traceback" not in text, text


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system of a few megabytes."""
    place = tmp_path / "small"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=60m", "tmpfs", str(place)]
    if os.geteuid() != 0 or subprocess.call(mount, stderr=subprocess.DEVNULL):
        pytest.skip("a small file system cannot be made here")
    yield place
    subprocess.run(["umount", "--lazy", place], check=True)


def test_a_full_disk_is_told_and_once_there_is_room_the_run_goes_on(
    small: Path, tmp_path: Path
) -> None:
    """The agents write nothing meanwhile: weft alone meets the full disk."""
    project = RunProject(small)
    try:
        go = tmp_path / "go"
        project.plan.write_text(plan(4, until=go))
        with project.untouched():
            process = project.start("run", "plan.md", "--slots", "2")
            wait_until(lambda: len(set(project.marked().values())) == 2)
            ballast = fill(small)
            said = wait_said(process, "disk is full")
            ballast.unlink()
            go.touch()
            out, err = process.communicate(timeout=PATIENCE)
        assert "Traceback" not in out + said + err, said + err
        assert process.returncode == 0, (out, said + err)
        project.assert_landed_once("1.1", "1.2", "1.3", "1.4")
        project.assert_nothing_left()
    finally:
        project.close()


def test_a_second_signal_ends_weft_on_a_full_disk_and_another_goes_on(
    small: Path, tmp_path: Path
) -> None:
    project = RunProject(small)
    try:
        go = tmp_path / "go"
        project.plan.write_text(plan(2, until=go))
        process = project.start("run", "plan.md", "--slots", "2")
        wait_until(lambda: len(set(project.marked().values())) == 2)
        ballast = fill(small)
        process.send_signal(signal.SIGTERM)
        said = wait_said(process, "interrupt again to end it now")
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == 130, (out, said + err)
        assert "Traceback" not in said + err, said + err
        ballast.unlink()
        go.touch()
        done = project.weft("run", "--resume")
        assert done.returncode == 0, (done.stdout, done.stderr)
        project.assert_landed_once("1.1", "1.2")
    finally:
        project.close()


def test_an_agent_that_fills_the_disk_is_ended_while_there_is_room_and_the_rest_lands(
    small: Path,
) -> None:
    """Weakened, nothing could be written any more, not even that it has ended."""
    project = RunProject(small)
    try:
        slowly = "while :; do head -c 200000 /dev/zero >> src/fill; sleep 0.1; done"
        project.shell(
            "filler",
            f"cat > /dev/null; mkdir -p src; head -c 40000000 /dev/zero > src/fill; {slowly}",
        )
        project.commit()
        greedy = "- [ ] Task 4: Fill it\n  <!-- files: src/fill; agent: filler -->\n"
        project.plan.write_text(f"{plan(3, 0.5)}\n{greedy}")
        with project.untouched():
            done = project.weft("run", "plan.md", "--slots", "2")
        assert done.returncode == 1
        assert project.states() == {"1.1": "done", "1.2": "done", "1.3": "done", "1.4": "blocked"}
        assert "MB of the disk" in project.reason("1.4")
        place = find_place(project.root / ".git", "")
        assert place is not None
        [work] = place.rglob("src/fill")
        assert f"it stays in {work.parent.parent}" in done.stderr, "too large to be kept elsewhere"
        subprocess.run(["mount", "-o", "remount,size=400m", str(small)], check=True)
        assert project.weft("skip", "1.4").returncode == 0
        done = project.weft("run", "--resume")
        assert done.returncode == 0, (done.stdout, done.stderr)
        project.assert_nothing_left()
        kept = git(project.root, "for-each-ref", "--format=%(refname)", "refs/weft/archive").split()
        assert any("src/fill" in listing(project.root, ref) for ref in kept)
    finally:
        project.close()


def test_a_read_only_repository_is_refused_before_anything_starts(small: Path) -> None:
    project = RunProject(small, f"sqlite:///{small.parent / 'weft.db'}")
    try:
        project.plan.write_text(plan())
        remount = ["mount", "-o", "remount,ro", str(small)]
        subprocess.run(remount, check=True)
        done = project.weft("run", "plan.md")
        assert done.returncode == 2
        assert_plainly_said(done.stderr)
        assert "cannot write" in done.stderr
        assert project.rows("SELECT * FROM runs") == []
        subprocess.run([*remount[:2], "remount,rw", str(small)], check=True)
        project.run("plan.md")
        project.assert_landed_once("1.1", "1.2", "1.3")
    finally:
        subprocess.run(["mount", "-o", "remount,rw", str(small)], check=False)
        project.close()


@pytest.fixture
def read_only() -> Iterator[Callable[[Path], None]]:
    """Make a directory read-only for everybody who opens something in it from now on."""
    made = []

    def make(place: Path) -> None:
        subprocess.run(["mount", "--bind", place, place], check=True)
        made.append(place)
        remount = [
            "mount",
            "-o",
            "remount,bind,ro",
            str(place),
        ]  # refused while somebody writes there
        wait_until(lambda: subprocess.call(remount, stderr=subprocess.DEVNULL) == 0)

    if os.geteuid() != 0:
        pytest.skip("nothing can be mounted here")
    yield make
    for place in made:
        subprocess.run(["umount", "--lazy", place], check=False, stderr=subprocess.DEVNULL)


def test_a_place_that_is_read_only_for_a_while_is_told_once_and_blames_no_task(
    project: RunProject, read_only: Callable[[Path], None], tmp_path: Path
) -> None:
    """Weakened, every task that would start meanwhile is blocked, and so is the gate."""
    go = tmp_path / "go"
    project.plan.write_text(plan(6, 0.2).replace("sleep 0.2", f"wait {go}", 1))
    process = project.start("run", "plan.md", "--slots", "2")
    wait_until(lambda: project.rows("SELECT * FROM landings WHERE state = 'landed'"))
    assert project.weft("limits", "set", "requests", "0").returncode == 0
    wait_until(lambda: list(project.states().values()).count("running") == 1)
    place = project.root / ".git" / "weft"
    read_only(place)
    assert project.weft("limits", "set", "requests", "24").returncode == 0
    said = wait_said(process, "trying again")
    again = "SELECT * FROM attempts WHERE number >= 2"
    wait_until(lambda: project.rows(again), "a task that could not start is tried again")
    subprocess.run(["umount", "--lazy", place], check=True)
    go.touch()
    out, err = process.communicate(timeout=PATIENCE)
    err = said + err
    assert process.returncode == 0, (out, err)
    assert err.count("trying again") <= 2, err  # by tasks, and by the gate
    assert "Traceback" not in err, err
    project.assert_landed_once(*(f"1.{n}" for n in range(1, 7)))
    project.assert_nothing_left()


def test_weft_works_where_its_directory_is_on_another_file_system(
    project: RunProject, small: Path
) -> None:
    """Weakened, an entry of a worktree is renamed out of it: `Invalid cross-device link`."""
    place = project.root / ".git" / "weft"
    place.symlink_to(small)
    project.plan.write_text(plan(3, 0.1))
    with project.untouched():
        project.run("plan.md", "--slots", "2")
    project.assert_landed_once("1.1", "1.2", "1.3")
    assert project.weft("clean").returncode == 0
    assert not list((project.root / ".git").glob("weft-trash*/*"))
    assert git(project.root, "worktree", "list").count("\n") == 1
    project.assert_nothing_left()


def test_git_that_goes_away_in_mid_run_loses_nothing(project: RunProject, tmp_path: Path) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    real = shutil.which("git")
    assert real is not None
    (programs / "git").symlink_to(real)
    for name in ("sh", "grep", "env"):
        found = shutil.which(name)
        assert found is not None
        (programs / name).symlink_to(found)
    project.plan.write_text(plan(3, 0.5))
    with project.untouched():
        process = project.start("run", "plan.md", "--slots", "2", PATH=str(programs))
        wait_until(lambda: project.rows("SELECT * FROM attempts") and project.marked())
        (programs / "git").unlink()
        said = wait_said(process, "git was not found")
        (programs / "git").symlink_to(real)
        out, err = process.communicate(timeout=PATIENCE)
    assert "Traceback" not in out + said + err, said + err
    assert process.returncode == 0, (out, said + err)
    project.assert_landed_once("1.1", "1.2", "1.3")
    project.assert_nothing_left()


def test_git_that_is_killed_again_and_again_needs_nobody(
    project: RunProject, tmp_path: Path
) -> None:
    """One call in six dies: before its work, after it, or wherever it is after some milliseconds.

    Weakened, so that git is not started again, tasks are blocked and the gate waits for a person.
    """
    ways = "before after 0.002 0.004 0.006 0.008 0.01 0.02"
    choose = 'choose() { shift "$1"; how=$1; }'
    dying = DyingGit(
        tmp_path, f"{choose}; [ $((number % 6)) = 5 ] && choose $((number / 6 % 8 + 1)) {ways}"
    )
    project.plan.write_text(plan(6, 0.1))
    with project.untouched():
        answer = project.run("plan.md", "--slots", "2", PATH=dying.path)
    assert {one["state"] for one in answer["tasks"]} == {"done"}
    assert len(dying.deaths) > 10
    project.assert_landed_once(*(f"1.{n}" for n in range(1, 7)))
    project.assert_nothing_left()


@pytest.mark.parametrize("moved", [False, True], ids=["deleted", "moved back"])
def test_a_task_does_not_start_without_what_it_needs_when_trunk_is_gone(
    project: RunProject, *, moved: bool
) -> None:
    """Weakened, the second task starts from the run's base, in which the first has not landed."""
    project.plan.write_text(
        "## Phase 1: First\n- [ ] Task 1: Do 1\n  <!-- files: src/p1 -->\n"
        "  - script: write src/p1 x\n"
        "## Phase 2: Second\n- [ ] Task 1: Do 2\n  <!-- files: src/p2 -->\n"
        "  - script: attempt 1: fail other\n  - script: write src/p2 x\n"
    )
    project.run("plan.md", code=1)
    trunk = f"weft/{project.run_id()}"
    landed = project.trunk()
    for _ in range(2):
        git(project.root, *(("branch", "-f", trunk, "main") if moved else ("branch", "-D", trunk)))
        assert project.weft("retry", "2.1").returncode == 0
        project.run("--resume", code=1)
        assert project.states() == {"1.1": "done", "2.1": "blocked"}
        assert (
            f"lacks what has landed there. Put it back (`git branch -f {trunk}"
            in project.reason("2.1")
        )
        git(project.root, "branch", "-f", trunk, landed)
    assert project.weft("retry", "2.1").returncode == 0
    assert project.weft("resume", project.run_id()).returncode == 0  # the gate has seen it too
    project.run("--resume")
    assert {"src/p1", "src/p2"} <= set(project.tree_listing())
    project.assert_landed_once("1.1", "2.1")


def test_a_database_locked_by_somebody_else_is_waited_for(project: RunProject) -> None:
    project.plan.write_text(plan(3, 0.3))
    with project.untouched():
        process = project.start("run", "plan.md", "--slots", "2")
        wait_until(lambda: project.rows("SELECT * FROM attempts"))
        path = project.url.removeprefix("sqlite:///")
        with closing(sqlite3.connect(path, timeout=PATIENCE, isolation_level=None)) as foreign:
            foreign.execute("BEGIN IMMEDIATE")
            time.sleep(1.0)  # several times as long as the pause between two tries
            foreign.execute("ROLLBACK")
        out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, (out, err)
    assert "Traceback" not in out + err
    project.assert_landed_once("1.1", "1.2", "1.3")
    project.assert_nothing_left()


def test_a_plan_file_that_is_gone_or_taken_over_stops_nobody(project: RunProject) -> None:
    project.plan.write_text(plan(3, 0.4))
    with project.untouched():
        process = project.start("run", "plan.md", "--slots", "2")
        wait_until(lambda: project.rows("SELECT * FROM attempts"))
        project.plan.unlink()
        out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, (out, err)
    assert "plan.md" in err
    assert "Traceback" not in err
    project.assert_landed_once("1.1", "1.2", "1.3")


def test_a_gc_during_a_run_takes_nothing_that_the_run_needs(project: RunProject) -> None:
    """The user's loop begins before the run, so a `git gc` is at work when weft starts to."""
    count = 40 if CHAOS else 12
    project.plan.write_text(plan(count, 0.1))
    process = project.start("run", "plan.md", "--slots", "4")
    collect = ["git", "gc", "--quiet", "--prune=now"]
    said = set()
    while process.poll() is None:
        tried = subprocess.run(
            collect, cwd=project.root, capture_output=True, text=True, check=False
        )
        said.add(tried.stderr.split(" on machine")[0])
    out, err = process.communicate()
    assert process.returncode == 0, (out, err)
    assert {"", "fatal: gc is already running"} <= said
    project.assert_landed_once(*(f"1.{n}" for n in range(1, count + 1)))
    assert git(project.root, "gc", "--quiet", "--prune=now") == ""
    assert git(project.root, "fsck", "--no-dangling", "--no-progress") == ""
    assert project.weft("verify", project.run_id()).returncode == 0
