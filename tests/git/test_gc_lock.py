"""`git gc` does not run while weft makes objects that no reference reaches."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
from pathlib import Path

import pytest

from repositories import git, make_repository
from wait_until import wait_until
from weft.git import Update, commit_tree, gc_lock, outlast_gc, update_refs_to_whole


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "project")


def collect(root: Path) -> subprocess.CompletedProcess[str]:
    """Run `git gc --prune=now`, as a user would."""
    command = ["git", "gc", "--quiet", "--prune=now"]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)


def test_gc_is_refused_while_the_lock_is_held_and_keeps_every_object(root: Path) -> None:
    assert gc_lock.hold(root / ".git")
    assert gc_lock.hold(root / ".git"), "a holder may renew its lock"
    made = subprocess.run(
        ["git", "hash-object", "-w", "--stdin"],
        cwd=root,
        input="reached by no reference",
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    refused = collect(root)
    assert refused.returncode != 0
    assert "gc is already running" in refused.stderr
    assert git(root, "cat-file", "-t", made).strip() == "blob"
    gc_lock.release(root / ".git")
    assert collect(root).returncode == 0


def test_the_lock_of_a_dead_process_is_taken_over_and_stops_no_gc(root: Path) -> None:
    child = subprocess.Popen(["true"])
    child.wait()
    (root / ".git" / "gc.pid").write_text(f"{child.pid} {socket.gethostname()}")
    assert collect(root).returncode == 0
    (root / ".git" / "gc.pid").write_text(f"{child.pid} {socket.gethostname()}")
    assert gc_lock.hold(root / ".git")


def test_a_gc_that_had_begun_to_take_the_lock_keeps_it(root: Path) -> None:
    """git reads `gc.pid` under `gc.pid.lock`, and then renames the second to the first."""
    lock, path = root / ".git" / "gc.pid.lock", root / ".git" / "gc.pid"
    lock.write_text(f"{os.getppid()} {socket.gethostname()}")

    def take() -> None:
        wait_until(path.exists)
        lock.rename(path)

    taking = threading.Thread(target=take)
    taking.start()
    assert not gc_lock.hold(root / ".git")
    taking.join()
    assert path.read_text().startswith(f"{os.getppid()} ")


def test_objects_that_a_forced_gc_removes_are_made_again(root: Path) -> None:
    """`--force` ignores the lock: here it comes after the first tree was written."""
    forced: list[str] = []

    def make() -> str:
        (root / "new").write_text("new")
        git(root, "add", "new", GIT_INDEX_FILE=str(root / "own"))
        tree = git(root, "write-tree", GIT_INDEX_FILE=str(root / "own")).strip()
        (root / "own").unlink()
        if not forced:
            forced.append(git(root, "gc", "--quiet", "--force", "--prune=now"))
        base = git(root, "rev-parse", "HEAD").strip()
        person = {"name": "a", "email": "a@b", "date": "1000000000 +0000"}
        made = commit_tree(root, tree, [base], "made", **person)
        update_refs_to_whole(
            root, [Update(ref="refs/weft/made", old=None, new=made)], excluding=base
        )
        return made

    assert outlast_gc(make) == git(root, "rev-parse", "refs/weft/made").strip()
    assert forced
    assert git(root, "gc", "--quiet", "--force", "--prune=now") == ""
    assert git(root, "show", "refs/weft/made:new") == "new"


def test_the_lock_of_another_process_is_neither_taken_nor_released(root: Path) -> None:
    path = root / ".git" / "gc.pid"
    path.write_text(f"{os.getppid()} {socket.gethostname()}")
    assert not gc_lock.hold(root / ".git")
    assert not gc_lock.wait_and_hold(root / ".git"), "it is no git that will end soon"
    gc_lock.release(root / ".git")
    assert path.read_text().startswith(f"{os.getppid()} ")
