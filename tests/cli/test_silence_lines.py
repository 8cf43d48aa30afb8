"""Lines about a silent worker: advice for its own host, within 80 columns."""

from __future__ import annotations

import os

import pytest

from store_helpers import url as url
from weft.cli.task_lines import list_silence_lines
from weft.model import NewWorker, Worker
from weft.process.process_identity import get_place
from weft.process.process_table import get_own
from weft.store import Store
from weft.store.workers import list_silent, register


def silent_worker(store: Store, host: str, boot: str, *, start: float = 1.0) -> Worker:
    id = f"{host}-123456-abcdef"
    new = NewWorker(id=id, slots=1, host=host, boot=boot, pid=os.getpid(), pid_start=start)
    register(store, new, now=0, stated={})
    [worker] = list_silent(store, now=10_000)
    return worker


@pytest.mark.parametrize("host", ["far", "builder-with-a-name-of-many-words-0123abcd"])
def test_the_advice_for_another_host_is_about_that_host(store: Store, host: str) -> None:
    lines = list_silence_lines(silent_worker(store, host, "another boot"))
    assert not [line for line in lines if len(line) > 80]
    assert "kill" not in "\n".join(lines)
    assert f"look on {host}" in " ".join(line.strip() for line in lines)


def test_a_silent_process_of_this_host_is_continued_or_killed(store: Store) -> None:
    here = get_place()
    start = float(get_own().start)
    lines = list_silence_lines(silent_worker(store, here.host, here.boot, start=start))
    assert not [line for line in lines if len(line) > 80]
    assert any(f"`kill -CONT {os.getpid()}`" in line for line in lines)
    assert any(f"`kill -9 {os.getpid()}`" in line for line in lines)


def test_nobody_is_told_to_kill_a_process_that_has_ended(store: Store) -> None:
    """Its pid belongs to another process now."""
    here = get_place()
    lines = list_silence_lines(silent_worker(store, here.host, here.boot))
    assert "has ended without a word" in " ".join(lines)
    assert "kill" not in " ".join(lines)
