"""What people do to tasks and runs, from the command line, on both stores."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from cli.in_process import Tell, teller, told
from cli.shell import assert_one_sentence, make_project, started, wait_line, weft
from databases import look
from store_helpers import hire, state, url
from wait_until import PATIENCE, wait_until
from weft.errors import AlreadyEnded, InputError, Refused
from weft.model import HUMAN, NewRun, NewTask, Outcome, State
from weft.store import Store
from weft.store.admission import admit, admit_task
from weft.store.attempt_end import finish
from weft.store.gate import block_gate, intend, read_gate
from weft.store.leases import take
from weft.store.runs import end_finished, get_run, submit_run
from weft.store.tasks import cancel

__all__ = ["url"]

B, C = "b" * 40, "c" * 40


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return make_project(tmp_path / "project")


@pytest.fixture
def tell(project: Path, url: str) -> Tell:
    return teller(project, url)


def run(store: Store, *tasks: NewTask, name: str = "plan-1") -> dict[str, int]:
    return submit_run(store, NewRun(id=name, repo="r", base=B), tasks, now=time.time())


def work(name: str, **fields: Any) -> NewTask:
    return NewTask(**{"name": name, "agent": "a", "files": (name,), **fields})


def end(store: Store, task: int, state: State, kind: str = "success", **fields: Any) -> None:
    [grant] = admit_task(store, "w", task, now=time.time())
    finish(store, grant.fence, Outcome(state=state, kind=kind, **fields), now=time.time())


def test_a_task_is_named_by_number_by_run_and_by_the_plans_id(store: Store, tell: Tell) -> None:
    first = run(store, work("1.1"), work("1.2"))
    second = run(store, work("1.2"), work("2"), name="plan-2")
    assert told(tell, "why", str(first["1.2"]))["task"] == first["1.2"]
    assert told(tell, "why", "plan-2/1.2")["task"] == second["1.2"]
    assert told(tell, "why", "1.1")["task"] == first["1.1"]
    with pytest.raises(InputError, match=r"several runs; say plan-1/1\.2 or plan-2/1\.2"):
        tell("why", "1.2")
    with pytest.raises(InputError, match=r"Did you mean 1\.1\?"):
        tell("why", "11.1")
    with pytest.raises(InputError, match=r"Did you mean plan-2/1\.2\?"):
        tell("why", "pln-2/1.2")
    with pytest.raises(InputError, match="list the names"):
        tell("why", "99999999999999999999999999")
    # A number goes before an id that looks like one.
    assert told(tell, "why", "2")["name"] == "1.2"
    assert told(tell, "why", "plan-2/2")["task"] == second["2"]


def test_an_id_means_the_unfinished_run_or_else_the_latest(store: Store, tell: Tell) -> None:
    old = run(store, work("1.1"))
    cancel(store, old["1.1"], now=time.time())
    end_finished(store, now=time.time())
    assert told(tell, "why", "1.1")["task"] == old["1.1"]
    fresh = run(store, work("1.1"), name="plan-2")
    assert told(tell, "why", "1.1")["task"] == fresh["1.1"]


def test_retry_and_skip(store: Store, tell: Tell) -> None:
    hire(store)
    numbers = run(store, work("1.1"), work("1.2", needs=("1.1",)), work("1.3"))
    end(store, numbers["1.1"], State.BLOCKED, "other", reason="Which colour?")
    done = told(tell, "retry", "1.1")
    assert (done["state"], done["changed"]) == ("ready", True)
    assert not told(tell, "retry", "1.1")["changed"]
    assert "Task plan-1/1.1 is skipped; the tasks that need it go on" in tell("skip", "1.1")
    assert state(store, numbers["1.2"]) == "ready"
    assert not told(tell, "skip", "1.1")["changed"]
    end(store, numbers["1.3"], State.DONE)
    with pytest.raises(AlreadyEnded):
        tell("retry", "1.3")
    with pytest.raises(Refused, match="is done already; there is nothing to skip"):
        tell("skip", "1.3")


def test_approve_and_reject_what_is_asked_of_a_person(store: Store, tell: Tell) -> None:
    numbers = run(store, NewTask(name="ask", agent=HUMAN), work("1.2", needs=("ask",)))
    assert "waits for you; `weft retry plan-1/ask` reopens it" in tell(
        "answer", "ask", "--no", "not like this"
    )
    tell("retry", "ask")
    assert told(tell, "answer", "ask", "--yes")["state"] == "done"
    assert not told(tell, "answer", "ask", "--yes")["changed"]
    assert state(store, numbers["1.2"]) == "ready"
    with pytest.raises(Refused, match="asks you nothing"):
        tell("answer", "1.2", "--yes")
    with pytest.raises(InputError, match="Give the reason"):
        tell("answer", "1.2", "--no", " ")
    cancel(store, numbers["1.2"], now=time.time())
    with pytest.raises(Refused, match="is cancelled already"):
        tell("answer", "1.2", "--yes")


def test_reject_what_wants_to_land(store: Store, tell: Tell) -> None:
    hire(store)
    numbers = run(store, work("1.1"))
    end(store, numbers["1.1"], State.GATING, candidate=C, base=B)
    assert "is done again, and its agent gets your reason" in tell(
        "answer", "1.1", "--no", "wrong colour"
    )
    assert state(store, numbers["1.1"]) == "ready"
    assert "↩ sent back: wrong colour" in tell("why", "1.1")


def test_cancel_pause_and_resume_a_task(store: Store, tell: Tell) -> None:
    hire(store)
    numbers = run(store, work("1.1"), work("1.2"), work("1.3"))
    assert told(tell, "pause", "1.1")["state"] == "paused"
    assert not told(tell, "pause", "1.1")["changed"]
    assert told(tell, "resume", "1.1")["state"] == "ready"
    assert not told(tell, "resume", "1.1")["changed"]
    admit_task(store, "w", numbers["1.2"], now=time.time())
    assert "its agent goes on to its end" in tell("pause", "1.2")
    assert told(tell, "resume", "1.2")["state"] == "running"
    assert "Its agent is being stopped." in tell("cancel", "1.2")
    assert not told(tell, "cancel", "1.2")["changed"]
    with pytest.raises(Refused, match="is cancelled, not paused; `weft retry"):
        tell("resume", "1.2")
    with pytest.raises(Refused, match="is cancelled and cannot be paused"):
        tell("pause", "1.2")
    end(store, numbers["1.3"], State.DONE)
    with pytest.raises(Refused, match="is done already and cannot be cancelled"):
        tell("cancel", "1.3")


def test_cancel_a_run(store: Store, tell: Tell) -> None:
    hire(store)
    numbers = run(store, work("1.1"), work("1.2"))
    done = told(tell, "cancel", "plan-1")
    assert (done["run"], done["state"], done["tasks"]) == ("plan-1", "ended", [*numbers.values()])
    assert "has ended already" in tell("cancel", "plan-1")
    for verb in ("pause", "resume"):
        with pytest.raises(Refused, match="has ended already"):
            tell(verb, "plan-1")
    with pytest.raises(InputError, match=r"no task or run 'plan-2'\. Did you mean plan-1\?"):
        tell("cancel", "plan-2")


def test_cancelling_a_run_names_what_is_landing(store: Store, tell: Tell) -> None:
    hire(store)
    numbers = run(store, work("1.1"), work("1.2"))
    end(store, numbers["1.1"], State.GATING, candidate=C, base=B)
    fence = take(store, "gate", "plan-1", {"gate:plan-1": 1}, worker="w", now=time.time())
    assert fence is not None
    [entry] = read_gate(store, "plan-1").entries
    intend(
        store,
        fence,
        "plan-1",
        old=B,
        new=C,
        tree="t",
        entries=[entry.id],
        commits=[C],
        revision=1,
        every_commit=False,
        now=time.time(),
    )
    with pytest.raises(Refused, match="is landing and can no longer be stopped"):
        tell("cancel", "1.1")
    assert tell("cancel", "plan-1") == (
        "Run plan-1: 1 task cancelled; 1 task landing, which can no longer be stopped: the run "
        "ends when that is done.\n"
    )
    assert get_run(store, "plan-1").state == "running"


def test_pause_and_resume_a_run_and_its_gate(store: Store, tell: Tell) -> None:
    hire(store)
    numbers = run(store, work("1.1"), work("1.2", needs=("1.1",)))
    assert told(tell, "pause", "plan-1")["tasks"] == [*numbers.values()]
    assert not admit(store, "w", now=time.time())
    fence = take(store, "gate", "plan-1", {"gate:plan-1": 1}, worker="w", now=time.time())
    assert fence is not None
    block_gate(store, fence, "plan-1", "trunk moved", now=time.time())
    assert tell("resume", "plan-1") == "Run plan-1 goes on, 2 tasks, and its gate.\n"
    assert get_run(store, "plan-1").blocked == ""
    assert not told(tell, "resume", "plan-1")["changed"]
    assert admit(store, "w", now=time.time())


def test_drain_and_undo(store: Store, tell: Tell) -> None:
    hire(store)
    numbers = run(store, work("1.1"), work("1.2"))
    admit_task(store, "w", numbers["1.1"], now=time.time())
    assert tell("drain").startswith("No task starts any more, on any host; 1 agent still runs.")
    assert not told(tell, "drain")["changed"]
    assert not admit(store, "w", now=time.time())
    assert "weft is drained" in tell("why", "1.2")
    assert tell("drain", "--undo") == "Tasks start again.\n"
    assert tell("drain", "--undo") == "weft was not drained.\n"
    assert admit(store, "w", now=time.time())


def test_mistakes_are_one_sentence_with_the_right_exit_code(project: Path) -> None:
    assert_one_sentence(weft(project, "cancel", "nobody"), 2, "no task or run 'nobody'")
    assert_one_sentence(weft(project, "cancel"), 2, "--all")
    assert_one_sentence(weft(project, "logs", "1", "--attempt", "0"), 2, "--attempt")
    weft(project, "do", "Ask", "--agent", "try", "--files", "none")
    assert_one_sentence(weft(project, "cancel", "1"), 1, "done already")


def test_running_processes_obey_a_drain_and_a_cancellation(project: Path) -> None:
    """Rows alone: nobody is called."""
    file = f"sqlite:///{project / '.git' / 'weft' / 'weft.db'}"
    tell = teller(project, file)

    def states() -> list[str]:
        return [str(row["state"]) for row in look(file, "SELECT state FROM tasks ORDER BY id")]

    with started(project, "do", "Wait\nscript: say here\nscript: hang", "--agent", "try") as doing:
        wait_line(doing, "here")
        tell("drain")
        with started(project, "do", "Later", "--agent", "try", "--files", "none") as later:
            wait_line(later, "drained")
            assert told(tell, "cancel", "1")["state"] == "cancelled"
            assert doing.wait(timeout=PATIENCE) == 1
            assert states() == ["cancelled", "ready"]
            tell("drain", "--undo")
            assert later.wait(timeout=PATIENCE) == 0
    wait_until(lambda: states() == ["cancelled", "done"])
