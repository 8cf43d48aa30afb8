"""The process table, by /proc and by psutil: two sources, the same answers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from cases import each_case
from wait_until import wait_until
from weft.process import process_identity, process_table, process_table_psutil
from weft.process.process_identity import Process
from weft.process.process_table import MARK

if sys.platform == "linux":
    from weft.process import process_table_linux

    SOURCES = [process_table_linux, process_table_psutil]
else:
    SOURCES = [process_table_psutil]


@pytest.fixture
def sleeper(tmp_path: Path) -> Iterator[int]:
    """A shell with a child, which carry a mark and keep a file open."""
    with (tmp_path / "kept").open("w") as kept:
        process = subprocess.Popen(
            ["sh", "-c", "sleep 1000; true"],
            env={**os.environ, MARK: "mine"},
            pass_fds=[kept.fileno()],
            start_new_session=True,
        )
        wait_until(lambda: len(process_table.list_descendants(process.pid)) == 1)
        yield process.pid
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.mark.parametrize("source", SOURCES)
def test_a_source_shows_parents_sessions_environments_and_files(
    source: ModuleType, sleeper: int, tmp_path: Path
) -> None:
    seen = source.find_view(sleeper)
    assert seen is not None
    assert (seen.process.pid, seen.parent, seen.session) == (sleeper, os.getpid(), sleeper)
    assert seen in list(source.list_living())
    [child] = source.list_children(sleeper)
    assert f"{MARK}=mine".encode() in source.read_environment(child).split(b"\0")
    assert source.has_open(child, (tmp_path / "kept").stat())
    assert not source.has_open(os.getpid(), tmp_path.stat())


@each_case("source", SOURCES)
def test_who_is_dead_is_not_seen(source: ModuleType) -> None:
    process = subprocess.Popen(["true"])
    wait_until(lambda: source.find_view(process.pid) is None)  # a zombie, not waited for
    process.wait()
    assert source.find_view(process.pid) is None
    assert source.list_children(process.pid) == []
    assert source.read_environment(process.pid) == b""


def test_a_signal_goes_to_the_process_meant_or_to_nobody(sleeper: int) -> None:
    process = process_table.find_process(sleeper)
    assert process is not None
    assert not process_table.send_signal(Process(sleeper, process.start + 1), signal.SIGKILL)
    assert process_table.is_alive(process)
    assert process_table.send_signal(process, signal.SIGKILL)
    wait_until(lambda: not process_table.is_alive(process))
    assert not process_table.send_signal(process, signal.SIGKILL)


def test_marks_are_found_on_children_too(sleeper: int) -> None:
    [child] = process_table.list_descendants(sleeper)
    assert process_table.find_mark(child.pid) == process_table.find_mark(sleeper) == "mine"
    assert process_table.find_mark(os.getpid()) is None


def test_this_place_and_its_clock_stay_the_same() -> None:
    assert process_identity.get_place() == process_identity.get_place()
    first = process_identity.boottime()
    assert process_identity.boottime() >= first > 0
