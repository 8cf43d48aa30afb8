"""Agents that weft started call its tools; one of them leads others."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from databases import look
from mcp_project import ServedProject, call, lines, made_in
from wait_until import PATIENCE, wait_until
from weft.model import State
from weft.operations.identity import LOCAL
from weft.operations.inbox import write
from weft.operations.single_task import check, submit_task


def start_lead(project: ServedProject, *script: str) -> int:
    request = check(project.project(), lines(*script), files=[], agent="lead")
    assert request.files == ()  # a lead claims nothing unless that was asked for
    return submit_task(project.project(), project.store, request)


def sent_by(project: ServedProject, task: int) -> list[int]:
    rows = look(project.url, f"SELECT id FROM tasks WHERE created_by = 'task {task}' ORDER BY id")
    return [row["id"] for row in rows]


def wait_for(project: ServedProject, task: int, state: State = State.DONE) -> None:
    wait_until(lambda: project.state(task) is state or _over(project, task))
    assert project.state(task) is state, (project.task(task).reason, project.attempts(task))


def _over(project: ServedProject, task: int) -> bool:
    return project.state(task) in (State.BLOCKED, State.FAILED, State.CANCELLED, State.DONE)


def test_a_lead_sends_two_tasks_hears_of_their_ends_and_ends(project: ServedProject) -> None:
    lead = start_lead(
        project,
        call("send_task", text=lines("answer One"), agent="scripted"),
        call("send_task", text=lines("write b.txt hi"), agent="scripted", files=["b.txt"]),
        "notices 2",
        call("store_progress", text="both are done"),
        "answer All is done",
    )
    wait_for(project, lead)
    first, second = sent_by(project, lead)
    assert project.task(lead).result == "All is done"
    assert project.task(first).result == "One"
    assert project.content(second, "b.txt") == "hi\n"
    assert project.outcomes(lead) == ["success"]


def test_a_killed_lead_loses_nothing(project: ServedProject, tmp_path: Path) -> None:
    go = tmp_path / "go"
    lead = start_lead(
        project,
        "attempt 1: " + call("send_task", text=lines("answer One"), agent="scripted"),
        "attempt 1: " + call("send_task", text=lines(f"wait {go}", "answer Two"), agent="scripted"),
        "attempt 1: say sent",
        "attempt 1: hang",
        "notices 2",
    )
    wait_until(lambda: "sent" in project.said(lead))
    first, second = sent_by(project, lead)
    wait_until(lambda: project.state(first) is State.DONE)
    [process] = [
        pid
        for pid, whose in project.marked().items()
        if whose == f"{lead}.1" and b"scripted.py" in Path(f"/proc/{pid}/cmdline").read_bytes()
    ]
    os.kill(process, signal.SIGKILL)
    wait_until(lambda: len(project.attempts(lead)) == 2)
    told = project.prompt_of(lead, 2)
    assert f"Task {first}" in told
    assert "is done.\n  > One" in told
    go.touch()
    wait_for(project, lead)
    assert sent_by(project, lead) == [first, second]  # nothing was sent twice, or lost
    assert project.state(second) is State.DONE
    assert project.outcomes(lead) == ["crash", "success"]


def test_a_lead_that_is_written_to_while_it_works_hears_it_before_it_is_done(
    project: ServedProject, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    lead = start_lead(project, f"attempt 1: wait {go}")
    assert "And tests." not in project.prompt_of(lead, 1)
    delivery = write(project.project(), LOCAL, "lead", "And tests.", now=0.0)
    assert (delivery.task, delivery.started) == (lead, False)
    go.touch()
    wait_for(project, lead)
    assert project.outcomes(lead) == ["success", "success"]
    assert "> And tests." in project.prompt_of(lead, 2)


def test_a_word_to_a_lead_that_has_nothing_to_do_starts_it(project: ServedProject) -> None:
    first = write(project.project(), LOCAL, "lead", lines("answer Yes"), now=0.0)
    assert first.started
    assert first.task is not None
    wait_for(project, first.task)
    again = write(project.project(), LOCAL, "lead", lines("answer No"), now=0.0)
    assert again.started
    assert again.task != first.task


def test_messages_alone_do_not_keep_a_lead_going_for_ever(project: ServedProject) -> None:
    lead = start_lead(project, call("poll_task", wait_ms=0), "say working")

    def pester() -> bool:
        if project.state(lead) is not State.DONE:
            project.tell(lead, "Again.")
        return project.state(lead) is State.DONE

    wait_until(pester)
    assert len(project.attempts(lead)) == 3  # as `lead_turns` says


@pytest.mark.chaos
@pytest.mark.skipif("WEFT_CHAOS" not in os.environ, reason="servers of its own: make chaos")
def test_a_killed_server_is_followed_by_another_and_the_lead_goes_on(tmp_path: Path) -> None:
    """The agent that polls goes on as the same attempt, and its token with it."""
    go = tmp_path / "go"
    with made_in(tmp_path / "project") as project:
        server = project.open()
        sent = call("send_task", text=lines(f"wait {go}", "answer One"), agent="scripted")
        lead = start_lead(project, sent, "say sent", "notices 1", "answer Heard")
        wait_until(lambda: "sent" in project.said(lead))
        wait_until(lambda: sent_by(project, lead))
        server.kill()
        server.wait()
        again = project.open()
        go.touch()
        wait_for(project, lead)
        assert project.outcomes(lead) == ["success"]
        assert project.task(lead).result == "Heard"
        again.terminate()
        assert again.wait(PATIENCE) == 0


@pytest.mark.chaos
@pytest.mark.skipif("WEFT_CHAOS" not in os.environ, reason="servers of its own: make chaos")
def test_a_server_that_is_asked_to_stop_does_not_wait_for_who_polls(tmp_path: Path) -> None:
    with made_in(tmp_path / "project") as project:
        server = project.open()
        poll = call("poll_task", wait_ms=60_000)
        lead = start_lead(project, "ignore TERM", poll, "say answered", "hang")
        wait_until(lambda: project.state(lead) is State.RUNNING)
        project.prompt_of(lead, 1)
        server.terminate()
        assert server.wait(PATIENCE) == 0
        assert project.state(lead) is State.READY  # handed back, for whoever serves next
