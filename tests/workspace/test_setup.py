from __future__ import annotations

import os
from pathlib import Path

import psutil
import pytest

from cases import each_case
from repositories import commit_all, git, make_candidate, make_repository, prepare, write
from wait_until import wait_until
from weft.config import WorkspaceSettings, parse
from weft.errors import InputError, SetUpFailed
from weft.workspace import Workspace, changes, port_variables, release, set_up


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = make_repository(tmp_path / "repository")
    (root / ".env").write_text("SECRET=1\n")
    write(root, node_modules__x__index="x\n", built__out="out\n")
    return root


@pytest.fixture
def place(root: Path) -> Workspace:
    return prepare(root)


def apply(place: Workspace, root: Path, **settings: object) -> None:
    chosen = WorkspaceSettings(**settings)  # type: ignore[arg-type]  # as the tests write them
    set_up(place, chosen, repository=root, environment=dict(os.environ))


def test_ignored_files_are_copied_and_linked_and_never_become_a_change(
    root: Path, place: Workspace
) -> None:
    apply(place, root, copy=(".env", "built/"), link=("node_modules",))
    assert (place.path / ".env").read_text() == "SECRET=1\n"
    assert (place.path / "built" / "out").read_text() == "out\n"
    assert (place.path / "node_modules").readlink() == root / "node_modules"
    assert changes(place).changes == ()
    write(place.path, a="mine\n")
    commit = make_candidate(place)
    assert git(root, "diff", "--name-only", f"{commit}^", commit) == "a\n"
    release(place)
    assert (root / "node_modules" / "x" / "index").read_text() == "x\n", "only the link goes"
    with prepare(root, attempt=2) as after:
        assert sorted(os.listdir(after.path)) == [".git", ".gitignore", "a", "dir", "run"]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        *(("../outside", "'..'"), ("/etc/passwd", "absolute"), (".git/config", "git's own")),
        *(("a", "does not ignore"), ("*.log", "wildcards"), ("missing.log", "is not in")),
        *(("link.log", "is a symlink"), ("away/x.log", "does not ignore|cannot tell|symlink")),
        ("tracked.log", "does not ignore|tracks itself"),
    ],
)
@pytest.mark.parametrize("how", ["copy", "link"])
def test_paths_that_escape_or_are_not_ignored_are_refused(
    root: Path, name: str, why: str, how: str
) -> None:
    (root / "link.log").symlink_to("/etc/passwd")
    (root / "away").symlink_to("/tmp")
    (root / "tracked.log").write_text("x")
    git(root, "add", "-f", "tracked.log")
    git(root, "commit", "-qm", "tracked")
    place = prepare(root)
    before = sorted(os.listdir(place.path))
    with pytest.raises((SetUpFailed, InputError), match=why):
        apply(place, root, **{how: (name,)})
    assert sorted(os.listdir(place.path)) == before


def test_a_link_in_the_base_does_not_lead_the_copy_out(root: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (root / "conf").symlink_to(outside)
    commit_all(root)
    place = prepare(root)
    (root / "conf").unlink()
    write(root, conf__x="x\n")
    (root / "conf" / "y.log").write_text("y\n")
    with pytest.raises(SetUpFailed, match="is a symlink"):
        apply(place, root, copy=("conf/y.log",))
    assert list(outside.iterdir()) == []


def test_the_command_runs_in_the_workspace_with_its_ports(root: Path, place: Workspace) -> None:
    chosen = parse('[workspace]\nsetup = "pwd > here.log; echo $WEFT_PORT_2 >> here.log"', {})
    variables = {**os.environ, **port_variables([4001, 4002])}
    set_up(place, chosen.workspace, repository=root, environment=variables)
    assert (place.path / "here.log").read_text() == f"{place.path}\n4002\n"


def test_a_failing_command_says_what_it_printed(root: Path, place: Workspace) -> None:
    with pytest.raises(SetUpFailed, match=r"ended with 3.\n(?s:.*)cannot find it"):
        apply(place, root, setup=("sh", "-c", "seq 5000; echo cannot find it >&2; exit 3"))
    with pytest.raises(SetUpFailed, match="no-such-program cannot be started"):
        apply(place, root, setup=("no-such-program",))


def test_a_command_that_hangs_ends_with_its_children(root: Path, place: Workspace) -> None:
    script = "sleep 611 & echo started; sleep 612"
    with pytest.raises(SetUpFailed, match=r"within 3 s.\nstarted"):
        apply(place, root, setup=("sh", "-c", script), timeout=3)
    wait_until(lambda: not _sleepers())


def _sleepers() -> list[int]:
    return [
        one.pid
        for one in psutil.process_iter(["cmdline", "status"])
        if one.info["cmdline"] in (["sleep", "611"], ["sleep", "612"])
        and one.info["status"] != psutil.STATUS_ZOMBIE
    ]


def test_a_bare_repository_has_nothing_to_copy(root: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", "--bare", str(root), "bare")
    with prepare(tmp_path / "bare") as place, pytest.raises(SetUpFailed, match="bare"):
        apply(place, tmp_path / "bare", copy=(".env",))


@each_case(
    ("text", "why"),
    [
        *(("copy = 1", "list of texts"), ("link = ['']", "list of texts"), ("setup = 1", "list")),
        *(("timeout = 0", "above 0"), ("timeout = true", "seconds"), ("cpoy = []", "copy")),
    ],
)
def test_settings_that_make_no_sense_are_refused(text: str, why: str) -> None:
    with pytest.raises(InputError, match=why):
        parse(f"[workspace]\n{text}\n", {})


def test_settings_are_read(root: Path) -> None:
    chosen = parse('[workspace]\ncopy=[".env"]\nsetup=["npm","ci"]\ntimeout=5\n', {}).workspace
    assert chosen == WorkspaceSettings(copy=(".env",), setup=("npm", "ci"), timeout=5)
    assert port_variables([]) == {}
