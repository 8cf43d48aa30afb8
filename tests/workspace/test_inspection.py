from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from repositories import commit_all, git, is_kept, make_repository, prepare, write
from weft import workspace
from weft.config import WorkspaceSettings
from weft.errors import WorkspaceError
from weft.git.disk import delete_tree
from weft.git.trees import Differences
from weft.workspace import (
    Terms,
    Unkeepable,
    Workspace,
    branch_ref,
    changes,
    clean,
    inspection,
    release,
)

ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount something")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "repository")


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system of 128 MB."""
    place = tmp_path / "small"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=128m", "tmpfs", place], check=True)
    yield place
    subprocess.run(["umount", "-l", place], check=True)


def _in_git_directory(place: Workspace) -> Path:
    (place.admin / "HEAD").unlink()
    return place.admin / "HEAD"


def _in_repository_elsewhere(place: Workspace) -> Path:
    away = place.slot.directory / "away"
    write(place.path, inner__x="x\n", **{"inner/.git": f"gitdir: {away}\n"})
    away.mkdir()
    return away / "HEAD"


@pytest.mark.parametrize(
    "find",
    [
        lambda place: place.path / "dir" / ".gitignore",
        lambda place: place.path / ".gitattributes",
        _in_git_directory,
        _in_repository_elsewhere,
    ],
    ids=["ignore", "attributes", "git directory", "elsewhere"],
)
def test_a_pipe_that_git_would_open_is_named_and_goes(
    root: Path, find: Callable[[Workspace], Path]
) -> None:
    """Weakened, git waits for it until its time is over: here, until it is broken off."""
    terms = Terms()
    place = workspace.prepare(root, branch_ref("r", "t", 1), "HEAD", terms=terms)
    write(place.path, a="work\n")
    pipe = find(place)
    os.mkfifo(pipe)
    breaking = threading.Timer(20, terms.breaker.break_off)
    breaking.start()
    try:
        with pytest.raises(Unkeepable, match=f"{pipe.name} is a pipe"):
            changes(place)
        release(place)
    finally:
        breaking.cancel()
    assert is_kept(root, "work\n")
    assert not pipe.is_fifo()


def test_what_is_nested_too_deep_is_not_taken_up_and_stays(root: Path) -> None:
    place = prepare(root)
    deepest = "d/" * inspection.DEPTH
    (place.path / deepest).mkdir(parents=True)
    (place.path / deepest / "file").write_text("200\n")
    assert changes(place).paths == (f"{deepest}file",)
    (place.path / deepest / "d").mkdir()
    (place.path / deepest / "d" / "file").write_text("201\n")
    with pytest.raises(Unkeepable, match=r"d/d/d/.* is nested more than 200 directories deep"):
        changes(place)
    with pytest.raises(Unkeepable, match="nested"):
        release(place)
    [kept] = clean(root).kept
    assert "nested more than 200" in kept.why
    assert (place.path / deepest / "d" / "file").read_text() == "201\n"


def test_a_file_above_max_file_mb_is_not_taken_up_and_stays(root: Path) -> None:
    terms = Terms(rules=WorkspaceSettings(max_file_mb=1))
    place = workspace.prepare(root, branch_ref("r", "t", 1), "HEAD", terms=terms)
    (place.path / "large").write_bytes(b"x" * (1 << 20))
    assert changes(place).paths == ("large",)
    with (place.path / "large").open("ab") as file:
        file.write(b"x")
    with pytest.raises(Unkeepable, match="large has 2 MB, more than max_file_mb = 1"):
        changes(place)
    with pytest.raises(Unkeepable, match="max_file_mb"):
        release(place)
    assert (place.path / "large").exists()
    [kept] = clean(root, terms=terms).kept
    assert "max_file_mb = 1" in kept.why
    report = clean(root, terms=Terms(rules=WorkspaceSettings(max_file_mb=2)))
    assert [report.kept, len(report.archived)] == [(), 1]


def differences(names: tuple[str, ...]) -> Differences:
    return Differences(modified=(), deleted=(), untracked=names, nested=())


def test_more_files_than_can_be_taken_up_are_refused(root: Path) -> None:
    names = tuple(f"x{number}" for number in range(inspection.CHANGED + 1))
    with prepare(root) as place:
        inspection.refuse_too_large(place, differences(names[:3]))
        with pytest.raises(Unkeepable, match=r"100001 files differ .* \.gitignore"):
            inspection.refuse_too_large(place, differences(names))


@ROOT_ONLY
def test_what_the_disk_has_no_room_for_stays_until_it_has(small: Path) -> None:
    root = make_repository(small / "repository")
    place = prepare(root)
    (place.path / "large").write_bytes(os.urandom(24 << 20))
    filler = small / "filler"
    filler.write_bytes(b"x" * (80 << 20))
    left = os.statvfs(small).f_bavail
    with pytest.raises(Unkeepable, match=f"stays in {place.path}"):
        release(place)
    assert os.statvfs(small).f_bavail > left - 256  # pages
    assert (place.path / "large").exists()
    with prepare(root, task="other") as other:
        write(other.path, new="little\n")
        assert changes(other).paths == ("new",)
    filler.unlink()
    assert len(clean(root).archived) == 2


def _unmount_below(directory: Path) -> None:
    for line in Path("/proc/self/mounts").read_text().splitlines():
        place = line.split()[1].replace("\\040", " ")
        if place.startswith(f"{directory}/"):
            subprocess.run(["umount", place], check=True)


@ROOT_ONLY
def test_a_mount_in_a_workspace_is_named_and_nothing_in_it_is_touched(
    root: Path, tmp_path: Path
) -> None:
    precious = tmp_path / "precious"
    write(precious, dir__file="mine\n")
    place = prepare(root)
    write(place.path, a="changed\n")
    mount = place.path / "mounted here"
    mount.mkdir()
    subprocess.run(["mount", "--bind", precious, mount], check=True)
    try:
        obstacle = release(place).obstacle
        assert obstacle is not None
        assert f"umount {mount}" in obstacle
        [kept] = clean(root).kept
        assert f"umount {mount}" in kept.why
        with pytest.raises(WorkspaceError, match="mounted"):
            delete_tree(place.path)
    finally:
        _unmount_below(place.path)
    assert (precious / "dir" / "file").read_text() == "mine\n"
    assert clean(root).kept == ()


def test_a_directory_of_any_depth_is_deleted(tmp_path: Path) -> None:
    top = tmp_path / "top"
    top.mkdir()
    program = "import os\nfor _ in range(3000): os.mkdir('d' * 9); os.chdir('d' * 9)"
    subprocess.run(["python3", "-c", program], cwd=top, check=True)
    try:
        delete_tree(top)
        assert not top.exists()
    finally:  # it is too deep for pytest as well
        subprocess.run(["rm", "-rf", top], check=True)


def test_a_workspace_whose_base_is_gone_is_named_and_stays(root: Path) -> None:
    place = prepare(root)
    write(place.path, a="work\n")
    lost = root / ".git" / "objects" / place.base[:2] / place.base[2:]
    content = lost.read_bytes()
    lost.unlink()
    with pytest.raises(WorkspaceError, match=f"{place.base} is missing"):
        release(place)
    assert (place.path / "a").read_text() == "work\n"
    lost.write_bytes(content)
    clean(root)
    assert is_kept(root, "work\n")


def test_what_was_staged_and_is_not_whole_is_not_archived(root: Path) -> None:
    place = prepare(root)
    ghost = "1234567890" * 4
    git(place.path, "update-index", "--add", "--cacheinfo", f"100644,{ghost},ghost")
    write(place.path, a="kept\n")
    release(place)
    assert is_kept(root, "kept\n")
    git(root, "gc", "--quiet", "--prune=now")
    assert git(root, "fsck", "--no-dangling", "--no-progress") == ""


def test_a_commit_that_is_not_whole_is_not_archived(root: Path) -> None:
    place = prepare(root)
    write(place.path, a="own\n")
    own = commit_all(place.path)
    blob = git(place.path, "rev-parse", f"{own}:a").strip()
    git(place.path, "reset", "-q", "--hard", place.base)
    (root / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    write(place.path, a="kept\n")
    release(place)
    assert is_kept(root, "kept\n")
    assert own not in git(root, "for-each-ref", "refs/weft/archive")
    git(root, "gc", "--quiet", "--prune=now")
    assert git(root, "fsck", "--no-dangling", "--no-progress") == ""
