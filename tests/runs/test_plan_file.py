"""Changing a plan file while others may be changing it too."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from weft.errors import InputError
from weft.runs import plan_file
from weft.runs.plan_file import read, update, write_new, write_over


@dataclass(frozen=True)
class New:
    data: bytes


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    path = tmp_path / "plan.md"
    path.write_bytes(b"one\n")
    return path


def add(line: bytes) -> Callable[[bytes], New]:
    return lambda data: New(data + line)


@contextmanager
def as_nobody() -> Iterator[None]:
    """Root may write anywhere; these tests are about those who may not."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        if user == 0:
            os.seteuid(0)


def test_the_change_is_in_the_file_and_its_answer_is_returned(plan: Path) -> None:
    assert update(plan, add(b"two\n")) == New(b"one\ntwo\n")
    assert plan.read_bytes() == b"one\ntwo\n"
    assert [one.name for one in plan.parent.iterdir()] == ["plan.md"]


def test_a_change_that_changes_nothing_does_not_touch_the_file(plan: Path) -> None:
    before = plan.stat()
    update(plan, add(b""))
    assert plan.stat() == before


def test_an_edit_in_between_is_kept_and_the_change_made_again_on_top_of_it(plan: Path) -> None:
    seen = []

    def change(data: bytes) -> New:
        seen.append(data)
        if len(seen) == 1:
            plan.write_bytes(b"edited\n")
        return New(data + b"two\n")

    update(plan, change)
    assert seen == [b"one\n", b"edited\n"]
    assert plan.read_bytes() == b"edited\ntwo\n"


def test_an_editor_that_replaces_the_file_is_noticed_too(plan: Path) -> None:
    seen = []

    def change(data: bytes) -> New:
        seen.append(data)
        if len(seen) == 1:
            other = plan.with_name("other")
            other.write_bytes(b"saved\n")
            other.replace(plan)
        return New(data + b"two\n")

    update(plan, change)
    assert plan.read_bytes() == b"saved\ntwo\n"


def test_a_file_that_never_stands_still_is_given_up_on(
    plan: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)
    rounds = iter(range(10_000))

    def change(data: bytes) -> New:
        plan.write_bytes(b"%d\n" % next(rounds))
        return New(data + b"two\n")

    with pytest.raises(InputError, match="keeps changing"):
        update(plan, change)
    assert b"two" not in plan.read_bytes()
    assert [one.name for one in plan.parent.iterdir()] == ["plan.md"]


def test_many_changes_at_once_all_arrive(plan: Path) -> None:
    def several(name: int) -> None:
        for number in range(5):
            update(plan, add(b"%d.%d\n" % (name, number)))

    threads = [threading.Thread(target=several, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines = plan.read_bytes().split()
    assert sorted(lines) == sorted(
        [b"one", *(b"%d.%d" % (name, number) for name in range(4) for number in range(5))]
    )


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o664, 0o755])
def test_the_mode_stays(plan: Path, mode: int) -> None:
    plan.chmod(mode)
    update(plan, add(b"two\n"))
    assert stat.S_IMODE(plan.stat().st_mode) == mode


def test_a_link_stays_a_link(plan: Path, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    link = tmp_path / "sub" / "link.md"
    link.symlink_to("../plan.md")
    update(link, add(b"two\n"))
    assert link.is_symlink()
    assert plan.read_bytes() == b"one\ntwo\n"
    assert not plan.is_symlink()
    assert [one.name for one in (tmp_path / "sub").iterdir()] == ["link.md"]


def test_a_directory_one_may_not_write_to_is_one_sentence() -> None:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        path = directory / "plan.md"
        path.write_bytes(b"one\n")
        path.chmod(0o666)
        directory.chmod(0o555)
        try:
            with as_nobody(), pytest.raises(InputError) as raised:
                update(path, add(b"two\n"))
        finally:
            directory.chmod(0o755)
        assert str(raised.value) == f"Cannot write {path}: Permission denied."
        assert path.read_bytes() == b"one\n"


def test_a_file_one_may_not_write_to_is_not_replaced() -> None:
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "plan.md"
        path.write_bytes(b"one\n")
        path.chmod(0o444)
        Path(name).chmod(0o777)
        with as_nobody(), pytest.raises(InputError, match="it is read-only"):
            update(path, add(b"two\n"))
        assert path.read_bytes() == b"one\n"


def test_a_change_that_fails_leaves_the_file_and_nothing_beside_it(plan: Path) -> None:
    def change(_: bytes) -> New:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        update(plan, change)
    assert [(one.name, one.read_bytes()) for one in plan.parent.iterdir()] == [
        ("plan.md", b"one\n")
    ]


@pytest.mark.parametrize("broken", ["os.fsync", "pathlib.Path.replace"])
def test_an_interruption_while_writing_leaves_nothing_beside_the_file(
    plan: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(broken, interrupt)
    with pytest.raises(KeyboardInterrupt):
        update(plan, add(b"two\n"))
    assert [(one.name, one.read_bytes()) for one in plan.parent.iterdir()] == [
        ("plan.md", b"one\n")
    ]


def test_a_disk_that_is_full_is_one_sentence(plan: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(InputError, match="No space left on device"):
        update(plan, add(b"two\n"))
    assert [one.name for one in plan.parent.iterdir()] == ["plan.md"]


KILLED = """
import os, signal, sys
from pathlib import Path
from weft.runs.plan_file import update

def change(data):
    os.kill(os.getpid(), signal.SIGKILL)

update(Path(sys.argv[1]), change)
"""


def test_a_process_killed_at_work_leaves_the_file_as_it_was(plan: Path) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, str(plan)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert [(one.name, one.read_bytes()) for one in plan.parent.iterdir()] == [
        ("plan.md", b"one\n")
    ]
    update(plan, add(b"two\n"))  # and no lock either


@pytest.mark.parametrize(
    ("name", "words"), [("nowhere.md", "There is no file"), (".", "directory")]
)
def test_what_is_no_file_cannot_be_read(tmp_path: Path, name: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        read(tmp_path / name)


@pytest.mark.parametrize("name", ["nowhere.md", "."])
def test_what_is_no_file_cannot_be_changed(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError):
        update(tmp_path / name, add(b"two\n"))


def test_a_file_of_any_size_is_not_read_whole(plan: Path) -> None:
    with pytest.raises(InputError, match="larger than 64 MB"):
        read(Path("/dev/zero"))
    os.truncate(plan, plan_file.MOST_BYTES)
    assert len(read(plan)) == plan_file.MOST_BYTES


def test_a_new_file_is_never_written_over_another(plan: Path) -> None:
    with pytest.raises(InputError, match="there already"):
        write_new(plan, b"two\n")
    link = plan.with_name("link")
    link.symlink_to("outside")
    with pytest.raises(InputError, match="there already"):
        write_new(link, b"two\n")
    assert plan.read_bytes() == b"one\n"
    write_new(plan.with_name("new"), b"two\n")
    assert plan.with_name("new").read_bytes() == b"two\n"
    with pytest.raises(InputError, match="No such file or directory"):
        write_new(plan.parent / "nowhere" / "new", b"two\n")


def test_only_a_file_of_the_same_kind_is_written_over(plan: Path) -> None:
    with pytest.raises(InputError, match="is no two"):
        write_over(plan, b"two\n", ours=lambda data: data == b"two\n", kind="two")
    write_over(plan, b"one, too\n", ours=lambda data: data == b"one\n", kind="one")
    assert plan.read_bytes() == b"one, too\n"
    write_over(plan.with_name("new"), b"1", ours=lambda _: False, kind="one")
    assert plan.with_name("new").read_bytes() == b"1"
