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

from wait_until import wait_until
from weft.process import process_place, table, table_psutil
from weft.process.process_view import Process
from weft.process.table import MARK

if sys.platform == "linux":
    from weft.process import table_linux

    SOURCES = [table_linux, table_psutil]
else:
    SOURCES = [table_psutil]


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
        wait_until(lambda: len(table.descendants(process.pid)) == 1)
        yield process.pid
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.mark.parametrize("source", SOURCES)
def test_a_source_shows_parents_sessions_environments_and_files(
    source: ModuleType, sleeper: int, tmp_path: Path
) -> None:
    seen = source.look(sleeper)
    assert seen is not None
    assert (seen.process.pid, seen.parent, seen.session) == (sleeper, os.getpid(), sleeper)
    assert seen in list(source.everyone())
    [child] = source.children(sleeper)
    assert f"{MARK}=mine".encode() in source.environment(child).split(b"\0")
    assert source.has_open(child, (tmp_path / "kept").stat())
    assert not source.has_open(os.getpid(), tmp_path.stat())


@pytest.mark.parametrize("source", SOURCES)
def test_who_is_dead_is_not_seen(source: ModuleType) -> None:
    process = subprocess.Popen(["true"])
    wait_until(lambda: source.look(process.pid) is None)  # a zombie, not waited for
    process.wait()
    assert source.look(process.pid) is None
    assert source.children(process.pid) == []
    assert source.environment(process.pid) == b""


def test_a_signal_goes_to_the_process_meant_or_to_nobody(sleeper: int) -> None:
    process = table.find_process(sleeper)
    assert process is not None
    assert not table.send_signal(Process(sleeper, process.start + 1), signal.SIGKILL)
    assert table.is_alive(process)
    assert table.send_signal(process, signal.SIGKILL)
    wait_until(lambda: not table.is_alive(process))
    assert not table.send_signal(process, signal.SIGKILL)


def test_marks_are_found_on_children_too(sleeper: int) -> None:
    [child] = table.descendants(sleeper)
    assert table.mark_of(child.pid) == table.mark_of(sleeper) == "mine"
    assert table.mark_of(os.getpid()) is None


def test_this_place_and_its_clock_stay_the_same() -> None:
    assert process_place.here() == process_place.here()
    first = process_place.boottime()
    assert process_place.boottime() >= first > 0
