"""The summary at the end of a run."""

from __future__ import annotations

from pathlib import Path

from store_helpers import go, hire
from weft.cli.run_summary import summary_lines
from weft.model import NewRun, NewTask, Outcome, Stage, State, TaskRequest, TeamRequest
from weft.runs.progress import read_progress
from weft.runs.run_figures import measure_run
from weft.store import open_store
from weft.store.attempt_end import finish
from weft.store.runs import submit_run


def test_the_attempts_of_a_team_are_drawn_in_the_row_of_its_task(tmp_path: Path) -> None:
    pipeline = (Stage(name="implement", agent="a", demand={"worker:@": 1}),)
    team = TeamRequest(strategy="best-of", pipelines=(pipeline,) * 2)
    tasks = [NewTask(name="t", files=("f",), request=TaskRequest(title="T", team=team))]
    with open_store(f"sqlite:///{tmp_path / 'weft.db'}") as store:
        hire(store)
        submit_run(store, NewRun(id="R", repo="r"), tasks, now=0)
        first, second = go(store), go(store)
        made = Outcome(state=State.GATING, candidate="c", base="b")
        finish(store, first.fence, made, now=5)
        failed = Outcome(state=State.READY, kind="timeout", reason="it took too long")
        finish(store, second.fence, failed, now=9)
        progress = read_progress(store, "R")
        figures = measure_run(progress.tasks, progress.attempts, progress.gate, slots=2, now=9)
        lines = summary_lines(progress, figures)
    [row] = [line for line in lines if line.startswith("  t ")]
    assert "█▒" in row, "the entrant that failed worked on after the success of the other"


def test_a_clock_that_jumps_does_not_stretch_the_chart(tmp_path: Path) -> None:
    later = 393.5 * 86_400
    tasks = [
        NewTask(name=name, files=(name,), request=TaskRequest(title=name)) for name in ("t", "u")
    ]
    with open_store(f"sqlite:///{tmp_path / 'weft.db'}") as store:
        hire(store)
        submit_run(store, NewRun(id="R", repo="r"), tasks, now=0)
        finish(store, go(store).fence, Outcome(state=State.DONE), now=31)
        finish(store, go(store, now=later).fence, Outcome(state=State.DONE), now=later + 40)
        progress = read_progress(store, "R")
        figures = measure_run(progress.tasks, progress.attempts, progress.gate, slots=2, now=later)
        text = "\n".join(summary_lines(progress, figures))
    assert " d" not in text.replace(" done", "")
    assert "ran 1 min 10 s" in text
    assert all("█████" in row for row in text.splitlines() if row.startswith(("  t ", "  u ")))
