"""Agents that weft started call its tools; one of them leads others."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from databases import look
from mcp_project import House, call, lines, made_in
from wait_until import PATIENCE, wait_until
from weft.model import State
from weft.runs.single_task import check, submit_task
from weft.swarm.delivery import write
from weft.swarm.identity import LOCAL


def start_lead(house: House, *script: str) -> int:
    request = check(house.project(), lines(*script), files=[], agent="lead")
    assert request.files == ()  # a lead claims nothing unless that was asked for
    return submit_task(house.project(), house.store, request)


def sent_by(house: House, task: int) -> list[int]:
    rows = look(house.url, f"SELECT id FROM tasks WHERE created_by = 'task {task}' ORDER BY id")
    return [row["id"] for row in rows]


def wait_for(house: House, task: int, state: State = State.DONE) -> None:
    wait_until(lambda: house.state(task) is state or _over(house, task))
    assert house.state(task) is state, (house.task(task).reason, house.attempts(task))


def _over(house: House, task: int) -> bool:
    return house.state(task) in (State.BLOCKED, State.FAILED, State.CANCELLED, State.DONE)


def test_a_lead_sends_two_tasks_hears_of_their_ends_and_ends(house: House) -> None:
    lead = start_lead(
        house,
        call("send_task", text=lines("answer One"), agent="scripted"),
        call("send_task", text=lines("write b.txt hi"), agent="scripted", files=["b.txt"]),
        "notices 2",
        call("store_progress", text="both are done"),
        "answer All is done",
    )
    wait_for(house, lead)
    first, second = sent_by(house, lead)
    assert house.task(lead).result == "All is done"
    assert house.task(first).result == "One"
    assert house.content(second, "b.txt") == "hi\n"
    assert house.outcomes(lead) == ["success"]


def test_a_killed_lead_loses_nothing(house: House, tmp_path: Path) -> None:
    go = tmp_path / "go"
    lead = start_lead(
        house,
        "attempt 1: " + call("send_task", text=lines("answer One"), agent="scripted"),
        "attempt 1: " + call("send_task", text=lines(f"wait {go}", "answer Two"), agent="scripted"),
        "attempt 1: say sent",
        "attempt 1: hang",
        "notices 2",
    )
    wait_until(lambda: "sent" in house.said(lead))
    first, second = sent_by(house, lead)
    wait_until(lambda: house.state(first) is State.DONE)
    [process] = [
        pid
        for pid, whose in house.marked().items()
        if whose == f"{lead}.1" and b"scripted.py" in Path(f"/proc/{pid}/cmdline").read_bytes()
    ]
    os.kill(process, signal.SIGKILL)
    wait_until(lambda: len(house.attempts(lead)) == 2)
    told = house.prompt_of(lead, 2)
    assert f"Task {first}" in told
    assert "is done.\n  > One" in told
    go.touch()
    wait_for(house, lead)
    assert sent_by(house, lead) == [first, second]  # nothing was sent twice, or lost
    assert house.state(second) is State.DONE
    assert house.outcomes(lead) == ["crash", "success"]


def test_a_lead_that_is_written_to_while_it_works_hears_it_before_it_is_done(
    house: House, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    lead = start_lead(house, f"attempt 1: wait {go}")
    assert "And tests." not in house.prompt_of(lead, 1)
    delivery = write(house.project(), LOCAL, "lead", "And tests.", now=0.0)
    assert (delivery.task, delivery.started) == (lead, False)
    go.touch()
    wait_for(house, lead)
    assert house.outcomes(lead) == ["success", "success"]
    assert "> And tests." in house.prompt_of(lead, 2)


def test_a_word_to_a_lead_that_has_nothing_to_do_starts_it(house: House) -> None:
    first = write(house.project(), LOCAL, "lead", lines("answer Yes"), now=0.0)
    assert first.started
    assert first.task is not None
    wait_for(house, first.task)
    again = write(house.project(), LOCAL, "lead", lines("answer No"), now=0.0)
    assert again.started
    assert again.task != first.task


def test_messages_alone_do_not_keep_a_lead_going_for_ever(house: House) -> None:
    lead = start_lead(house, call("poll_task", wait_ms=0), "say working")

    def pester() -> bool:
        if house.state(lead) is not State.DONE:
            house.tell(lead, "Again.")
        return house.state(lead) is State.DONE

    wait_until(pester)
    assert len(house.attempts(lead)) == 3  # as `lead_turns` says


@pytest.mark.chaos
@pytest.mark.skipif("WEFT_CHAOS" not in os.environ, reason="servers of its own: make chaos")
def test_a_killed_server_is_followed_by_another_and_the_lead_goes_on(tmp_path: Path) -> None:
    """The agent that polls goes on as the same attempt, and its token with it."""
    go = tmp_path / "go"
    with made_in(tmp_path / "house") as house:
        server = house.open()
        sent = call("send_task", text=lines(f"wait {go}", "answer One"), agent="scripted")
        lead = start_lead(house, sent, "say sent", "notices 1", "answer Heard")
        wait_until(lambda: "sent" in house.said(lead))
        wait_until(lambda: sent_by(house, lead))
        server.kill()
        server.wait()
        again = house.open()
        go.touch()
        wait_for(house, lead)
        assert house.outcomes(lead) == ["success"]
        assert house.task(lead).result == "Heard"
        again.terminate()
        assert again.wait(PATIENCE) == 0


@pytest.mark.chaos
@pytest.mark.skipif("WEFT_CHAOS" not in os.environ, reason="servers of its own: make chaos")
def test_a_server_that_is_asked_to_stop_does_not_wait_for_who_polls(tmp_path: Path) -> None:
    with made_in(tmp_path / "house") as house:
        server = house.open()
        poll = call("poll_task", wait_ms=60_000)
        lead = start_lead(house, "ignore TERM", poll, "say answered", "hang")
        wait_until(lambda: house.state(lead) is State.RUNNING)
        house.prompt_of(lead, 1)
        server.terminate()
        assert server.wait(PATIENCE) == 0
        assert house.state(lead) is State.READY  # handed back, for whoever serves next
