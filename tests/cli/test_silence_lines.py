"""Lines about a silent worker: advice for its own host, within 80 columns."""

from __future__ import annotations

import pytest

from store_helpers import url as url
from weft.cli.silence_lines import list_silence_lines
from weft.model import NewWorker, Worker
from weft.process.process_identity import get_place
from weft.store import Store
from weft.store.workers import list_silent, register


def silent_worker(store: Store, host: str, boot: str) -> Worker:
    id = f"{host}-123456-abcdef"
    new = NewWorker(id=id, slots=1, host=host, boot=boot, pid=123456, pid_start=1.0)
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
    lines = list_silence_lines(silent_worker(store, here.host, here.boot))
    assert not [line for line in lines if len(line) > 80]
    assert any("`kill -CONT 123456`" in line for line in lines)
    assert any("`kill -9 123456`" in line for line in lines)
