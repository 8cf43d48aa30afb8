"""Teams, questions, loops and recordings over a server: as beside the store, or a clear refusal."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

import pytest

from api_http.server_cli import Served, served
from cli.plan_project import Project
from cli.shell import assert_one_sentence
from databases import sqlite_store
from repositories import commit_all, git
from store_helpers import go, hire
from weft.model import ASKED, NewRun, NewTask, Outcome, Stage, State, TaskRequest, TeamRequest
from weft.store import Store, open_store
from weft.store.attempt_end import finish
from weft.store.runs import submit_run
from weft.store.workers import depart

CANDIDATES = ("one", "two")


@pytest.fixture(scope="module")
def remote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    place = tmp_path_factory.mktemp("remote_work")
    project = Project(place / "project", sqlite_store(place / "weft.db"))
    nothing = json.dumps([sys.executable, "-c", "print('Nothing is open.')"])
    project.agent("dispatch", nothing, "hands_to: [implement]\n")
    commit_all(project.root, "agents")
    with served(project) as opened:
        yield opened


def ask(store: Store) -> None:
    """A task whose agent has asked its person."""
    hire(store)
    submit_run(store, NewRun(id="asks", repo="r"), [NewTask(name="t")], now=0)
    question = Outcome(
        state=State.BLOCKED, kind=ASKED, reason="Which port?", options=("8080", "8443")
    )
    finish(store, go(store).fence, question, now=1)
    depart(store, "w", now=1)


def compete(store: Store, project: Project) -> None:
    """A team whose two entrants have a candidate each."""
    hire(store)
    pipeline = (Stage(name="implement", agent="implement", demand={"worker:@": 1}),)
    team = TeamRequest(strategy="best-of", pipelines=(pipeline,) * 2)
    task = NewTask(name="t", files=("f",), request=TaskRequest(title="Compete", team=team))
    submit_run(store, NewRun(id="team", repo="r"), [task], now=0)
    base = git(project.root, "rev-parse", "HEAD").strip()
    for content in CANDIDATES:
        (project.root / "f").write_text(f"{content}\n")
        commit_all(project.root, content)
        made = git(project.root, "rev-parse", "HEAD").strip()
        git(project.root, "reset", "--hard", base)
        outcome = Outcome(state=State.GATING, candidate=made, base=base)
        finish(store, go(store).fence, outcome, now=1)
    depart(store, "w", now=1)


def test_a_question_is_answered_over_a_server(remote: Served) -> None:
    with open_store(remote.project.url) as store:
        ask(store)
    assert_one_sentence(remote.weft("answer", "asks/t", "9"), 2, "2 8443")
    assert remote.answer("answer", "asks/t", "2", "--json")["changed"]
    [note] = remote.project.rows("SELECT text FROM messages")
    assert note["text"] == "8443"
    assert remote.project.rows("SELECT state FROM tasks WHERE run = 'asks'") == [{"state": "ready"}]
    assert remote.weft("cancel", "asks").returncode == 0


def test_candidates_are_compared_and_chosen_over_a_server(remote: Served) -> None:
    with open_store(remote.project.url) as store:
        compete(store, remote.project)
    compare = ("review", "team/t", "--compare")
    here, there = remote.here(*compare), remote.weft(*compare)
    assert (there.returncode, there.stdout) == (0, here.stdout)
    for content in CANDIDATES:
        assert f"+{content}" in there.stdout
    chosen = remote.answer("review", "team/t", "--choose", "2", "--json")
    assert chosen["text"] == "Entrant 2 was chosen for task team/t."
    again = remote.weft("review", "team/t", "--choose", "1")
    assert_one_sentence(again, 1, "has its winner already")


def test_a_loop_is_followed_over_a_server(remote: Served) -> None:
    worker = remote.project.start("worker")
    try:
        done = remote.answer("loop", "--json")
    finally:
        worker.kill()
        worker.wait()
    assert (done["state"], done["tasks"]) == ("done", {"done": 1})


def test_recordings_are_made_and_played_beside_the_output_of_agents(remote: Served) -> None:
    with open_store(remote.project.url) as store:
        submit_run(store, NewRun(id="played", repo="r"), [NewTask(name="t", pinned="x")], now=0)
    refused = remote.weft("recordings", "save", "played", "-o", "recordings")
    assert_one_sentence(refused, 2, "on the server's machine", "weft recordings save")
    for options in ((), ("--from", "recordings")):
        refused = remote.weft("recordings", "play", "played", *options)
        assert_one_sentence(refused, 2, "on the server's machine", "weft recordings play")
    assert not list(remote.elsewhere.iterdir())
