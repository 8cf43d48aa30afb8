"""What a workspace is brought has one name for as long as it is the same."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from repositories import make_repository
from wait_until import wait_until
from weft.config import WorkspaceSettings
from weft.workspace import SetupFiles

IO = Path("/proc/self/io")
SETTINGS = WorkspaceSettings(copy=(".env", "data/"), link=("deps", "model"))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = make_repository(tmp_path / "project")
    (root / ".env").write_text("KEY=1\n")
    (root / "data" / "deep").mkdir(parents=True)
    (root / "data" / "deep" / "rows").write_text("1\n")
    (root / "data" / "link").symlink_to("deep")
    (root / "deps" / "some").mkdir(parents=True)
    (root / "deps" / "lock").write_text("some 1.0\n")
    (root / "model").write_text("weights\n")
    return root


def name(root: Path) -> str:
    """As somebody sees it who comes now."""
    return SetupFiles(root, SETTINGS).name()


def rewrite(path: Path, text: str) -> None:
    """Other content under the same size and times of modification."""
    before = path.stat()
    assert len(text) == before.st_size
    path.write_text(text)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def relink(path: Path, target: str) -> None:
    path.unlink()
    path.symlink_to(target)


def replace_directory(path: Path) -> None:
    shutil.rmtree(path)
    path.mkdir()


@pytest.mark.parametrize(
    "change",
    [
        lambda root: rewrite(root / ".env", "KEY=2\n"),
        lambda root: (root / ".env").unlink(),
        lambda root: (root / ".env").chmod(0o755),
        lambda root: (root / "data/deep/rows").write_text("2\n"),
        lambda root: (root / "data/deep/more").write_text(""),
        lambda root: (root / "data/deep").rename(root / "data/other"),
        lambda root: relink(root / "data/link", "other"),
        lambda root: (root / "deps/lock").write_text("some 1.00\n"),
        lambda root: (root / "deps/new").mkdir(),
        lambda root: replace_directory(root / "deps"),
        lambda root: (root / "model").write_text("other weights\n"),
    ],
)
def test_whatever_changes_has_another_name(root: Path, change: Callable[[Path], object]) -> None:
    before = name(root)
    assert name(root) == before
    change(root)
    assert name(root) != before


def test_a_change_is_seen_by_who_has_looked_before(root: Path) -> None:
    for path in (root / ".env", root / "data" / "deep" / "rows"):
        os.utime(path, (1, 1))
    brought = SetupFiles(root, SETTINGS)
    first = brought.name()
    rewrite(root / ".env", "KEY=2\n")
    assert not brought.keeps(first)
    rewrite(root / ".env", "KEY=1\n")
    assert brought.keeps(first)


def test_equal_content_has_an_equal_name_wherever_it_is(root: Path, tmp_path: Path) -> None:
    copied = WorkspaceSettings(copy=SETTINGS.copy)
    shutil.copytree(root, tmp_path / "other", symlinks=True)
    os.utime(tmp_path / "other" / ".env", (1, 1))
    assert SetupFiles(tmp_path / "other", copied).name() == SetupFiles(root, copied).name()


@pytest.mark.skipif(not IO.exists(), reason="this kernel does not tell how much is read")
def test_a_file_is_read_again_only_after_a_change(root: Path) -> None:
    size = 1_000_000
    (root / ".env").write_text("1" * size)
    brought = SetupFiles(root, SETTINGS)
    first = brought.name()

    def is_read() -> bool:
        before = bytes_read()
        assert brought.name() == first
        return bytes_read() - before >= size

    wait_until(lambda: not is_read())  # what has just been written may change within one tick
    rewrite(root / ".env", "2" * size)
    assert not brought.keeps(first)


def bytes_read() -> int:
    return int(IO.read_text().split()[1])


def test_what_never_rests_gets_a_name_of_its_own_and_keeps_it(root: Path) -> None:
    brought = SetupFiles(root, SETTINGS)
    seen = []
    for number in range(9):
        (root / ".env").write_text(f"KEY={number}\n")
        seen.append(brought.name())
    assert len(set(seen)) == 5
    assert brought.keeps(seen[-1])
    assert seen[-1] not in (name(root), SetupFiles(root, SETTINGS).name())


def test_changes_with_rest_between_them_are_all_followed(root: Path) -> None:
    brought = SetupFiles(root, SETTINGS)
    for number in range(9):
        (root / ".env").write_text(f"KEY={number}\n")
        found = brought.name()
        assert brought.keeps(found)
        assert found == name(root)


def test_nothing_that_is_named_needs_to_be_there(root: Path) -> None:
    gone = SetupFiles(root, WorkspaceSettings(copy=("no", "such/thing"), link=("neither",)))
    assert gone.name() == gone.name()
    os.mkfifo(root / "data" / "pipe")  # not opened: nobody would answer
    assert name(root)
