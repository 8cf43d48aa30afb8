from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from repositories import commit_all, git, make_repository, write
from weft import workspace
from weft.config import WorkspaceSettings
from weft.errors import SetUpFailed
from weft.workspace import (
    Terms,
    Workspace,
    attach,
    branch_ref,
    changes,
    clean,
    discard,
    release,
)

KEEP = WorkspaceSettings(keep=("node_modules",))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = make_repository(tmp_path / "repository")
    write(root, **{"package-lock.json": "1\n"})
    commit_all(root)
    return root


def begin(root: Path, attempt: int, rules: WorkspaceSettings = KEEP) -> Workspace:
    branch = branch_ref("r", "t", attempt)
    place = workspace.prepare(root, branch, "HEAD", terms=Terms(rules=rules))
    environment = {"PATH": "/usr/bin:/bin", "WEFT_PORT": "21003"}
    workspace.set_up(place, rules, repository=root, environment=environment)
    return place


def test_dependencies_stay_while_the_lock_file_is_the_same(root: Path) -> None:
    first = begin(root, 1)
    write(first.path, node_modules__dep="installed\n", built__x="built\n", a="work\n")
    assert changes(first).paths == ("a",)
    release(first)
    write(root, a="other\n")
    commit_all(root)
    second = begin(root, 2)
    assert second.path == first.path
    assert (second.path / "node_modules" / "dep").read_text() == "installed\n"
    assert not (second.path / "built").exists()
    assert changes(second).paths == ()
    release(second)
    write(root, **{"package-lock.json": "2\n"})
    commit_all(root)
    with begin(root, 3) as third:
        assert third.path == first.path
        assert not (third.path / "node_modules").exists()


def test_dependencies_of_an_agents_own_lock_file_do_not_stay(root: Path) -> None:
    first = begin(root, 1)
    write(first.path, node_modules__dep="installed\n", **{"package-lock.json": "3\n"})
    release(first)
    with begin(root, 2) as second:
        assert not (second.path / "node_modules").exists()


def test_what_is_not_kept_for_checks_is_gone_there(root: Path) -> None:
    first = begin(root, 1)
    write(first.path, node_modules__dep="installed\n")
    release(first)
    with begin(root, 2, WorkspaceSettings()) as check:
        assert check.path == first.path
        assert not (check.path / "node_modules").exists()


def test_a_link_in_the_place_of_a_directory_does_not_stay(root: Path, tmp_path: Path) -> None:
    first = begin(root, 1)
    (first.path / "node_modules").symlink_to(tmp_path)
    release(first)
    with begin(root, 2) as second:
        assert not (second.path / "node_modules").is_symlink()


def test_what_git_does_not_ignore_cannot_be_kept(root: Path) -> None:
    with pytest.raises(SetUpFailed, match="does not ignore"):
        begin(root, 1, WorkspaceSettings(keep=("dir",)))


TEARING = ("sh", "-c", "echo torn $WEFT_PORT >> ../../repository/torn")


def test_a_teardown_runs_when_a_workspace_is_given_up(root: Path) -> None:
    rules = WorkspaceSettings(teardown=TEARING)
    release(begin(root, 1, rules))
    discard(begin(root, 2, rules))
    assert (root / "torn").read_text() == "torn 21003\n" * 2
    release(workspace.prepare(root, branch_ref("r", "t", 3), "HEAD", terms=Terms(rules=rules)))
    assert (root / "torn").read_text() == "torn 21003\n" * 2  # it was not set up


KILLED = """
import os, signal, sys
from pathlib import Path
from weft import workspace
from weft.config import WorkspaceSettings
root = Path(sys.argv[1])
rules = WorkspaceSettings(teardown=("true",))
place = workspace.prepare(root, workspace.branch_ref("r", "t", 1), "HEAD")
workspace.set_up(place, rules, repository=root, environment={"WEFT_PORT": "21003"})
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("by", ["clean", "release"])
def test_a_teardown_runs_also_after_a_crash(root: Path, by: str) -> None:
    subprocess.run([sys.executable, "-c", KILLED, str(root)], check=False)
    terms = Terms(rules=WorkspaceSettings(teardown=TEARING))
    if by == "clean":
        clean(root, terms=terms)
    else:
        release(attach(root, branch_ref("r", "t", 1), terms=terms))
    assert (root / "torn").read_text() == "torn 21003\n"


def test_a_teardown_that_fails_keeps_nobody(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    rules = WorkspaceSettings(teardown=("sh", "-c", "echo no stack here; exit 3"))
    assert release(begin(root, 1, rules)).obstacle is None
    assert "ended with 3: no stack here" in caplog.text
    assert git(root, "worktree", "list").count("\n") == 2
