"""Secrets in what checks and merges print are kept in no row of the gate's tables."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gate.gate_run import RUN, WORKER, Stage, task
from store_helpers import snapshot
from weft.candidate_records import MergeConflict
from weft.redaction import Redactor
from weft.store.gate import block_gate, record_conflict, reject
from weft.store.leases import take

SECRET = "kD83jfhQ20skLs92jfA7dk3hF9s2"

VERBS: dict[str, Callable[[Stage, int], None]] = {
    "the report of a conflict": lambda stage, fence: record_conflict(
        stage.store,
        fence,
        RUN,
        MergeConflict(base=stage.base, entry="1.1", after=(), report=f"<<< {SECRET}"),
        now=2,
    ),
    "the reason for which a candidate is sent back": lambda stage, fence: reject(
        stage.store, fence, RUN, ["1.1"], "red", f"the check printed {SECRET}", now=2
    ),
    "the reason for which the gate waits": lambda stage, fence: block_gate(
        stage.store, fence, RUN, f"git said {SECRET}", now=2
    ),
}


@pytest.mark.parametrize("verb", VERBS)
def test_a_secret_is_kept_in_no_row(stage: Stage, verb: str) -> None:
    stage.submit([task("a")])
    stage.bring("a", {"src/a": "a = 2\n"})
    fence = take(stage.store, "gate", RUN, {f"gate:{RUN}": 1}, worker=WORKER, now=1)
    assert fence is not None
    stage.store.redactor = Redactor([("KEY", SECRET)])
    VERBS[verb](stage, fence)
    rows = str(snapshot(stage.store.url))
    assert SECRET not in rows
    assert "[KEY]" in rows
