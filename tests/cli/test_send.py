"""`weft send`, and the members in `weft agents`."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from cli.plan_project import Project
from cli.shell import assert_one_sentence
from databases import sqlite_store
from weft.model import NewTask
from weft.operations.identity import LOCAL
from weft.operations.membership import join
from weft.store import open_store
from weft.store.tasks import submit


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "project", sqlite_store(tmp_path / "weft.db"))


def words(project: Project) -> list[tuple[object, object, object]]:
    rows = project.rows("SELECT to_task, to_worker, text FROM messages ORDER BY id")
    return [(row["to_task"], row["to_worker"], row["text"]) for row in rows]


def test_a_word_goes_to_a_task_by_its_number(project: Project) -> None:
    with open_store(project.url) as store:
        task = submit(store, NewTask(name="a"), repo="r", now=time.time())
    done = project.weft("send", str(task), "Mind the cache.")
    assert done.returncode == 0
    assert done.stdout == "Task 1 gets it when its agent polls, or with its next attempt.\n"
    assert words(project) == [(task, None, "Mind the cache.")]


def test_a_word_goes_to_a_member_by_name_or_id(project: Project) -> None:
    with open_store(project.url) as store:
        member = join(store, LOCAL, name="ann", now=time.time())
    for to in ("ann", member.id):
        done = project.weft("send", to, "Hello.", "--json")
        assert json.loads(done.stdout) == {"task": None, "member": member.id, "started": False}
    assert words(project) == [(None, member.id, "Hello.")] * 2


def test_a_word_to_a_lead_starts_it_and_the_next_one_goes_to_the_same_task(
    project: Project,
) -> None:
    project.agent("boss", front="stage: lead\n")
    first = json.loads(project.weft("send", "boss", "Lead this.", "--json").stdout)
    again = json.loads(project.weft("send", "boss", "And that.", "--json").stdout)
    assert (first["started"], again["started"]) == (True, False)
    assert first["task"] == again["task"]
    [task] = project.rows("SELECT * FROM tasks")
    assert (task["agent"], task["stage"], task["text"]) == ("boss", "lead", "Lead this.")
    assert task["files"] == "{}"
    assert words(project) == [(first["task"], None, "And that.")]


def test_who_is_not_there_cannot_be_written_to(project: Project) -> None:
    assert_one_sentence(project.weft("send", "nobody", "Hello."), 2, "'nobody' is no task")
    assert_one_sentence(project.weft("send", "7", "Hello."), 2, "'7' is no task")
    assert_one_sentence(project.weft("send", "implement", "Hello."), 2, "is no lead")
    assert_one_sentence(project.weft("send", "7", " "), 2, "Say something")


def test_members_are_listed_with_what_they_can_and_how_busy_they_are(project: Project) -> None:
    with open_store(project.url) as store:
        member = join(
            store,
            LOCAL,
            name="ann",
            is_lead=True,
            role="tests",
            capabilities=("python", "sql"),
            max_tasks=3,
            now=time.time(),
        )
    told = json.loads(project.weft("agents", "--json").stdout)["members"]
    assert told == [
        {
            "id": member.id,
            "name": "ann",
            "is_lead": True,
            "role": "tests",
            "capabilities": ["python", "sql"],
            "capacity": {"current": 0, "max": 3, "available": 3},
            "status": "idle",
        }
    ]
    shown = project.weft("agents").stdout
    assert "ann" in shown
    assert "lead, tests" in shown
    assert "0 of 3" in shown
