"""Seed 000 over HTTP: capacity, assignment, polling, status, shutdown, with real processes; and
what its first build got wrong."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import anyio
import httpx
import pytest
from anyio import to_thread

from api_http.server_process import PATIENT, Client, Server, serving
from chaos import CHAOS
from forked_python import ForkedPython
from wait_until import PATIENCE, wait_until
from weft.model import NewMember
from weft.store.members import join
from weft.store.tokens import identify


@contextmanager
def runner(
    client: Client, directory: Path, name: str = "runner", **environment: str
) -> Iterator[subprocess.Popen[bytes]]:
    directory.mkdir(exist_ok=True)
    kept = {k: v for k, v in os.environ.items() if k != "MAX_CONCURRENT_TASKS"}
    program = Path(__file__).with_name("runner_program.py")
    with ForkedPython[bytes](
        [sys.executable, str(program), client.server.url, client.token, name, str(directory)],
        env={**kept, **environment},
    ) as process:
        try:
            wait_until(lambda: client.get("/v1/agents")["agents"])
            yield process
        finally:
            for task in client.get("/v1/tasks")["tasks"]:
                (directory / f"{task['id']}.end").touch()
            if process.poll() is None:
                process.terminate()


def running(directory: Path) -> set[int]:
    return {int(one.stem) for one in directory.glob("*.pid") if _lives(int(one.read_text() or 0))}


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return pid > 0


def end(directory: Path, task: int) -> None:
    (directory / f"{task}.end").touch()


def _has_ended(directory: Path, task: int) -> bool:
    return task not in running(directory)


def states(client: Client) -> Counter[str]:
    return Counter(one["state"] for one in client.get("/v1/tasks")["tasks"])


def test_an_agent_that_says_nothing_runs_one_task_at_a_time(alone: Server, tmp_path: Path) -> None:
    client = alone.client(alone.make_token())
    place = tmp_path / "work"
    with runner(client, place):
        [agent] = client.get("/v1/agents")["agents"]
        assert agent["capacity"] == {"current": 0, "max": 1, "available": 1}
        tasks = [client.send() for _ in range(3)]
        for task in tasks:
            wait_until(lambda: running(place))
            assert running(place) == {task}
            end(place, task)
            wait_until(partial(_has_ended, place, task))
        wait_until(lambda: states(client) == {"done": 3})


def test_three_run_at_once_and_the_others_follow_as_they_end(alone: Server, tmp_path: Path) -> None:
    client = alone.client(alone.make_token())
    place = tmp_path / "work"
    with runner(client, place, MAX_CONCURRENT_TASKS="3"):
        tasks = [client.send() for _ in range(5)]
        wait_until(lambda: len(running(place)) == 3)
        assert states(client) == {"running": 3, "ready": 2}
        [agent] = client.get("/v1/agents")["agents"]
        assert agent["capacity"] == {"current": 3, "max": 3, "available": 0}
        assert agent["status"] == "busy"
        end(place, tasks[0])
        wait_until(lambda: tasks[3] in running(place))
        assert states(client) == {"done": 1, "running": 3, "ready": 1}
        for task in tasks:
            end(place, task)
        wait_until(lambda: states(client) == {"done": 5})


def test_a_runner_that_is_asked_to_stop_lets_its_tasks_end(alone: Server, tmp_path: Path) -> None:
    client = alone.client(alone.make_token())
    place = tmp_path / "work"
    with runner(client, place, MAX_CONCURRENT_TASKS="3") as process:
        tasks = [client.send() for _ in range(3)]
        wait_until(lambda: len(running(place)) == 3)
        process.send_signal(signal.SIGTERM)
        late = client.send("too late")
        for task in tasks:
            end(place, task)
        assert process.wait(PATIENCE) == 0
        assert states(client) == {"done": 3, "ready": 1}
        assert client.state(late) == "ready"
        assert client.get("/v1/agents")["agents"] == []


def test_an_agent_at_capacity_is_refused_more_but_may_be_offered_it(server: Server) -> None:
    client = server.apart()
    agent = client.join(max_tasks=1)
    client.send()
    task, fence = client.take(agent)
    body = {"text": "more", "to": agent, "how": "assign"}
    assert client.refused(409, "POST", "/v1/tasks", body) == "at_capacity"
    offered = client.send("offered", to=agent, how="offer")
    queued = client.send("queued", to=agent, how="queue")
    assert client.state(offered) == "offered"
    assert client.get("/v1/me")["agent"]["offers"] == [offered]
    assert client.http.post(f"/v1/tasks/{offered}/accept", json={}).status_code == 409
    client.finish(task, fence)
    assert client.poll(agent)["offer"]["task"] == offered
    assert client.post(f"/v1/tasks/{offered}/accept")["task"] == offered
    assert client.state(queued) == "ready"
    assert client.capacity(agent) == {"current": 1, "max": 1, "available": 0}


def test_an_offer_that_cannot_start_is_in_the_pool_again_and_the_answer_says_why(
    server: Server,
) -> None:
    client = server.apart()
    agent = client.join(max_tasks=2)
    client.send("first", files=["a.py"])
    holder, _ = client.take(agent)
    offered = client.send("then", files=["a.py"], to=agent, how="offer")
    for _ in range(2):
        refused = client.http.post(
            f"/v1/tasks/{offered}/accept", json={}, headers={"Idempotency-Key": "once"}
        )
        assert (refused.status_code, refused.json()["type"]) == (409, "refused")
        assert refused.headers["content-type"] == "application/problem+json"
        assert refused.json()["detail"] == (
            f"Task {offered} cannot start now: waiting for a.py, which task {holder} is changing; "
            "it is in the pool again."
        )
        about = client.get(f"/v1/tasks/{offered}")
        assert (about["state"], about["offered_to"]) == ("ready", None)
    again = client.http.post(f"/v1/tasks/{offered}/accept", json={})
    assert "not offered" in again.json()["detail"]


def test_who_ends_a_cancelled_task_is_told_so_and_has_room_again(server: Server) -> None:
    client = server.apart()
    agent = client.join(max_tasks=1)
    client.send()
    task, fence = client.take(agent)
    client.post("/v1/cancel", {"name": task})
    body = {"fence": fence, "status": "completed"}
    assert client.refused(409, "POST", f"/v1/tasks/{task}/finish", body) == "already_ended"
    assert client.capacity(agent) == {"current": 0, "max": 1, "available": 1}


def test_the_class_of_a_task_is_called_class(server: Server) -> None:
    client = server.apart()
    client.send("soon")
    task = client.send("some day", **{"class": "batch"})
    assert client.get(f"/v1/tasks/{task}")["class"] == "batch"
    listed = client.get("/v1/tasks", params={"class": "batch"})["tasks"]
    assert [(one["id"], one["class"]) for one in listed] == [(task, "batch")]
    body = {"text": "x", "klass": "batch"}
    assert client.refused(422, "POST", "/v1/tasks", body) == "malformed"
    assert client.refused(422, "GET", "/v1/tasks?class=odd") == "malformed"


def test_an_assignment_may_wait_for_capacity(server: Server) -> None:
    client = server.apart()
    agent = client.join(max_tasks=1)
    client.send()
    task, fence = client.take(agent)
    with ThreadPoolExecutor(1) as pool:
        sent = pool.submit(lambda: client.send("later", to=agent, how="assign", wait_ms=60_000))
        client.finish(task, fence)
        later = sent.result(PATIENCE)
    assert client.take(agent)[0] == later
    body = {"text": "more", "to": agent, "how": "assign", "wait_ms": 50}
    assert client.refused(409, "POST", "/v1/tasks", body) == "at_capacity"


def test_status_follows_what_an_agent_has_to_do(server: Server) -> None:
    client = server.apart()
    agent = client.join(max_tasks=3)

    def status() -> str:
        return str(client.get(f"/v1/agents/{agent}")["status"])

    assert status() == "idle"
    for _ in range(2):
        client.send()
    taken = [client.take(agent) for _ in range(2)]
    assert status() == "busy"
    assert client.capacity(agent) == {"current": 2, "max": 3, "available": 1}
    for task, fence in taken:
        client.finish(task, fence)
    assert status() == "idle"
    client.send()
    client.take(agent)
    assert status() == "busy"


def test_who_joins_again_is_brought_up_to_date_and_keeps_its_tasks(server: Server) -> None:
    client = server.apart()
    agent = client.join(max_tasks=2, role="tester")
    client.send()
    task, fence = client.take(agent)
    assert client.join(max_tasks=5, capabilities=["rust"]) == agent
    me = client.get("/v1/me")["agent"]
    assert me["capacity"] == {"current": 1, "max": 5, "available": 4}
    assert me["capabilities"] == [client.kind, "rust"]
    assert [(one["task"], one["fence"]) for one in me["tasks"]] == [(task, fence)]
    for wrong in (0, 21, "3"):
        body = {"name": "ann", "max_tasks": wrong}
        client.refused(422, "POST", "/v1/agents", body)


def test_duplicate_poll(server: Server) -> None:
    """Of many polls at once each task is given to one."""
    client = server.apart()
    agents = [client.join(f"agent {number}", max_tasks=2) for number in range(8)]
    tasks = {client.send() for _ in range(10)}

    def poll(agent: str) -> int | None:
        trigger = client.poll(agent)
        return trigger and int(trigger["task"]["task"])

    with ThreadPoolExecutor(8) as pool:
        given = [one for one in pool.map(poll, agents * 3) if one is not None]
    assert sorted(given) == sorted(tasks)


def test_progress_does_not_revive_a_finished_task(server: Server) -> None:
    client = server.apart()
    agent = client.join(max_tasks=2)
    client.send()
    task, fence = client.take(agent)
    client.finish(task, fence, text="done")
    late = {"fence": fence, "text": "still at it"}
    assert client.refused(409, "POST", f"/v1/tasks/{task}/progress", late) == "stale_fence"
    assert client.state(task) == "done"
    again = {"fence": fence, "status": "failed", "text": "no"}
    assert client.refused(409, "POST", f"/v1/tasks/{task}/finish", again) == "already_ended"
    assert client.finish(task, fence, text="done")["state"] == "done"
    assert client.get(f"/v1/tasks/{task}")["result"] == "done"


def test_a_cancelled_task_stays_cancelled(server: Server) -> None:
    client = server.apart()
    agent = client.join()
    client.send()
    task, fence = client.take(agent)
    assert client.post("/v1/cancel", {"name": task})["changed"]
    end_ = {"fence": fence, "status": "completed"}
    assert client.http.post(f"/v1/tasks/{task}/finish", json=end_).status_code == 409
    assert client.state(task) == "cancelled"
    assert client.get("/v1/me")["agent"]["tasks"] == []  # and its slot is free
    client.post(f"/v1/tasks/{task}/release", {"fence": fence})
    assert client.capacity(agent)["current"] == 0


def test_the_fence_of_a_task_that_was_handed_on_is_stale(server: Server) -> None:
    client = server.apart()
    ann, bob = client.join("ann"), client.join("bob")
    client.send()
    task, old = client.take(ann)
    assert client.post(f"/v1/tasks/{task}/release", {"fence": old})["changed"]
    again, fence = client.take(bob)
    assert again == task
    assert fence > old
    for verb, about in (
        ("progress", {"text": "x"}),
        ("finish", {"status": "completed"}),
        ("files", {"files": ["a"]}),
    ):
        body = {"fence": old, **about}
        assert client.http.post(f"/v1/tasks/{task}/{verb}", json=body).status_code == 409
    assert not client.post(f"/v1/tasks/{task}/release", {"fence": old})["changed"]
    assert client.state(task) == "running"
    client.finish(task, fence)


def test_the_pool_does_not_ignore_what_a_task_needs(server: Server) -> None:
    client = server.apart()
    agent = client.join(max_tasks=3)
    first = client.send("first")
    second = client.send("second", needs=[first])
    task, fence = client.take(agent)
    assert task == first
    assert client.poll(agent) is None
    assert client.http.post(f"/v1/tasks/{second}/claim", json={}).status_code == 409
    assert client.state(second) == "waiting"
    assert client.get(f"/v1/tasks/{second}/why")["waits"][0]["kind"] == "need"
    client.finish(task, fence, text="what second needs")
    trigger = client.poll(agent)
    assert trigger["task"]["task"] == second
    assert trigger["task"]["needs"][0]["result"] == "what second needs"


def test_an_offer_that_nobody_answers_is_not_stranded(hasty: Server) -> None:
    client = hasty.apart()
    silent, other = client.join("silent"), client.join("other")
    task = client.send(to=silent, how="offer")
    found: list[int] = []

    def wait() -> None:
        while not found:
            trigger = client.poll(other, wait_ms=500)
            if trigger is not None:
                found.append(trigger["task"]["task"])

    waiting = threading.Thread(target=wait)
    waiting.start()
    waiting.join(PATIENCE)
    assert found == [task]


def test_a_crash_fails_nobody_who_depends_on_it(hasty: Server) -> None:
    client = hasty.apart()
    dies, lives = client.join("dies"), client.join("lives", max_tasks=2)
    first = client.send("first")
    second = client.send("second", needs=[first])
    task, old = client.take(dies)
    assert task == first
    done: list[int] = []
    while len(done) < 2:  # the one that polls lives on; of the other nothing is heard any more
        trigger = client.poll(lives, wait_ms=500)
        if trigger is not None:
            done.append(trigger["task"]["task"])
            client.finish(trigger["task"]["task"], trigger["task"]["fence"])
    assert done == [first, second]
    late = {"fence": old, "status": "failed", "text": "I was only slow"}
    assert client.http.post(f"/v1/tasks/{first}/finish", json=late).status_code == 409
    assert (client.state(first), client.state(second)) == ("done", "done")


def test_messages_reach_whoever_works_and_leads_hear_of_ends(server: Server) -> None:
    client = server.apart()
    lead, agent = client.join("lead", is_lead=True), client.join("ann")
    task = client.send("work")
    _, fence = client.take(agent)
    client.post(f"/v1/tasks/{task}/messages", {"text": "hurry"})
    heard = client.post(f"/v1/tasks/{task}/progress", {"fence": fence, "text": "half"})
    assert [one["text"] for one in heard["messages"]] == ["hurry"]
    body = {"fence": fence, "text": "more", "ack": heard["ack"]}
    assert client.post(f"/v1/tasks/{task}/progress", body)["messages"] == []
    client.finish(task, fence, text="result")
    told = client.poll(lead)
    assert told["kind"] == "finished"
    assert [one["task"] for one in told["finished"]] == [task]
    assert client.poll(lead, ack=told["ack"]) is None
    client.post(f"/v1/agents/{lead}/messages", {"text": "well done"})
    assert client.poll(lead)["messages"][0]["text"] == "well done"


def test_a_full_queue_says_when_to_come_back(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'weft.db'}"
    with serving(tmp_path, url, settings=PATIENT + "queue = 2\n") as server:
        client = server.client()
        client.send()
        client.send()
        answer = client.http.post("/v1/tasks", json={"text": "one too many"})
        assert answer.status_code == 429
        assert int(answer.headers["retry-after"]) > 0


def test_who_went_away_while_it_waited_gets_nothing(server: Server) -> None:
    client = server.apart()
    agent = client.join()
    waits = {"X-Weft-Agent": agent}
    with suppress(httpx.ReadTimeout):
        client.http.post("/v1/poll", json={"wait_ms": 60_000}, headers=waits, timeout=0.5)
    other = client.join("other")
    task = client.send()

    def found() -> bool:
        trigger = client.poll(other, wait_ms=1000)
        return trigger is not None and trigger["task"]["task"] == task

    wait_until(found)


@pytest.mark.chaos
def test_hundreds_of_long_polls_on_one_token_are_answered(server: Server) -> None:
    crowd = server.apart()
    with server.open_store() as store:
        token = identify(store, crowd.token, now=time.time())
        ids = [f"many-{number}" for number in range(1000 if CHAOS else 250)]
        for id in ids:
            new = NewMember(
                id=id, name=id, slots=1, token=token.id, capabilities=(crowd.kind or "",)
            )
            join(store, new, now=time.time())

    async def poll(client: httpx.AsyncClient, id: str) -> object:
        headers = {"X-Weft-Agent": id}
        answer = await client.post("/v1/poll", json={"wait_ms": 5_000}, headers=headers)
        assert answer.status_code == 200, answer.text
        return answer.json()["trigger"]

    async def poll_all() -> list[object]:
        found: list[object] = []
        limits = httpx.Limits(max_connections=None)
        about = {"Authorization": f"Bearer {crowd.token}"}
        async with httpx.AsyncClient(
            base_url=server.url, headers=about, timeout=PATIENCE, limits=limits, verify=False
        ) as client:

            async def one(id: str) -> None:
                found.append(await poll(client, id))

            async with anyio.create_task_group() as group:
                for id in ids:
                    group.start_soon(one, id)
                await to_thread.run_sync(crowd.send)
        return found

    found = anyio.run(poll_all)
    assert len(found) == len(ids)
    assert sum(trigger is not None for trigger in found) == 1
