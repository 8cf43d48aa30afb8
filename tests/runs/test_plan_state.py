"""The state file of a run: derived from its tasks and attempts, and written over its own kind."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from store_helpers import go, hire, url
from weft import plan
from weft.errors import InputError
from weft.model import NewRun, NewTask, Outcome, State
from weft.runs.plan_state import encode_state, list_progress, require_state_file, write_state
from weft.runs.progress import read_progress
from weft.store import open_store
from weft.store.attempt_end import finish
from weft.store.runs import submit_run

__all__ = ["url"]

PLAN = b"# T\n- [ ] a\n  <!-- files: a -->\n- [ ] b\n  <!-- files: b -->\n- [x] c 1a2b3c4\n"


def test_the_progress_of_a_task_is_that_of_its_attempts(url: str) -> None:
    with open_store(url) as store:
        hire(store)
        tasks = [NewTask(name=f"1.{n}", files=(file,)) for n, file in enumerate("ab", 1)]
        submit_run(store, NewRun(id="R", repo="r"), tasks, now=0)
        crash = Outcome(state=State.READY, kind="crash", reason="It fell over.")
        late = Outcome(state=State.BLOCKED, kind="timeout", reason="Too long.\nVery.")
        finish(store, go(store, now=5).fence, crash, now=6)
        finish(store, go(store, now=7).fence, late, now=9)
        progress = read_progress(store, "R")
    own = list_progress(progress)["1.1"]
    assert (own.state, own.started, own.timed_out, own.error) == (
        State.BLOCKED,
        5,
        True,
        "Too long.",
    )
    data = encode_state(plan.read("plan.md", PLAN).plan, progress=progress)
    assert encode_state(plan.read("plan.md", PLAN).plan, progress=progress) == data
    statuses = [worker["status"] for worker in json.loads(data)["workers"]]
    assert statuses == ["timed_out", "pending", "completed"]


def test_a_state_is_not_written_over_another_file(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    data = encode_state(plan.read("plan.md", PLAN).plan)
    require_state_file(path)
    write_state(path, data)
    inode = os.stat(path).st_ino
    write_state(path, data)
    assert os.stat(path).st_ino == inode, "the same bytes are not written again"
    require_state_file(path)
    for other in ("{}", "[]", "text", '{"work": 1}'):
        path.write_text(other)
        with pytest.raises(InputError, match="is no parallel state"):
            require_state_file(path)
        with pytest.raises(InputError, match="is no parallel state"):
            write_state(path, data)
        assert path.read_text() == other
    with pytest.raises(InputError, match="no directory"):
        require_state_file(tmp_path / "no" / "state.json")
