"""Write-back into prd.json and tasks.json: a few values change, and no other byte."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import each_case
from weft import plan
from weft.errors import InputError
from weft.model import State
from weft.plan.writeback import Status, write_back

PRD = """\
{
  "project": "Shop",\t"branchName": "x",
  "userStories": [
    {
      "id": "US-1",   "title": "Log in é \\u00e9",
      "acceptanceCriteria": ["a", "b"],
      "passes": false,
      "notes": ""
    },
    {"id": "US-2", "title": "Log out", "passes" : true , "notes":"Mind the\\nsession."},
    {
      "title": "Pages", "id": "US-3",
      "subtasks": [{"id": "a", "title": "One"}, {"title": "Two", "passes": false}]
    }
  ]
}
"""
TASKS = """\
{"master": {"tasks": [
  {"id": 1, "title": "x", "status": "pending", "subtasks": [
     {"id": 1, "title": "y", "status" :"pending"},
     { "title": "z", "id": 2 } ]},
  {"status":"deferred","id": 2, "title": "w"}
 ], "metadata": {"status": "pending"}}}
"""


def written(name: str, text: str, **states: Status) -> str:
    data = text.encode("utf-8", "surrogateescape")
    the_plan = plan.read(name, data).plan
    statuses = {id.replace("__", ".").replace("_", "-"): state for id, state in states.items()}
    marked = write_back(data, the_plan, statuses)
    assert marked.gone == ()
    return marked.data.decode("utf-8", "surrogateescape")


DONE = Status(state=State.DONE, commit="1a2b3c4d5")
FAILED = Status(state=State.FAILED, note="It\x1b[2J broke\nbadly")


@each_case(
    ("states", "changes"),
    [
        (
            {"US_1": DONE},
            [('"passes": false,\n', '"passes": true,\n'), ('""', '"weft: landed as 1a2b3c4d5"')],
        ),
        ({"US_1": FAILED}, [('"notes": ""', '"notes": "weft: failed: It (2J broke badly"')]),
        ({"US_1": Status(state=State.RUNNING)}, []),
        (
            {"US_1": Status(state=State.SKIPPED)},
            [('"notes": ""', '"notes": "",\n      "skipped": true')],
        ),
        (
            {"US_2": Status(state=State.RUNNING)},
            [('"passes" : true', '"passes" : false')],
        ),
        (
            {"US_2": Status(state=State.FAILED)},
            [
                ('"passes" : true', '"passes" : false'),
                ("session.", "session.\\nweft: failed"),
            ],
        ),
        (
            {"US_3": DONE, "US_3__a": Status(state=State.DONE)},
            [
                ('"title": "One"', '"title": "One", "passes": true'),
                (
                    "false}]",
                    'false}],\n      "passes": true,\n      "notes": "weft: landed as 1a2b3c4d5"',
                ),
            ],
        ),
    ],
)
@each_case("end", ["\n", "\r\n"])
@each_case("shape", ["object", "array"])
def test_a_story_is_written_back_and_no_other_byte(
    states: dict[str, Status], changes: list[tuple[str, str]], end: str, shape: str
) -> None:
    before = PRD.replace("\n", end)
    after = before
    for old, new in changes:
        assert before.count(old.replace("\n", end)) == 1
        after = after.replace(old.replace("\n", end), new.replace("\n", end))
    if shape == "array":
        before, after = (text[text.index("[") : text.rindex("]") + 1] for text in (before, after))
    assert written("prd.json", "\ufeff" + before, **states) == "\ufeff" + after


def test_a_second_note_replaces_the_first_and_the_authors_stays() -> None:
    first = written("prd.json", PRD, US_2=FAILED)
    assert json.loads(first)["userStories"][1]["notes"] == (
        "Mind the\nsession.\nweft: failed: It (2J broke badly"
    )
    assert written("prd.json", first, US_2=FAILED) == first
    again = written("prd.json", first, US_2=Status(state=State.DONE))
    assert again == PRD
    details = plan.read("prd.json", first.encode()).plan.tasks[1].details
    assert details == "Mind the\nsession."


@each_case(
    ("states", "changes"),
    [
        ({"1": State.RUNNING}, [('"x", "status": "pending"', '"x", "status": "in-progress"')]),
        ({"1.1": State.DONE}, [('"status" :"pending"', '"status" :"done"')]),
        ({"1.1": State.FAILED}, [('"status" :"pending"', '"status" :"blocked"')]),
        ({"1.1": State.SKIPPED}, [('"status" :"pending"', '"status" :"cancelled"')]),
        ({"1.2": State.GATING}, [('"id": 2 }', '"id": 2, "status": "in-progress" }')]),
        ({"2": State.BLOCKED}, []),
        ({"2": State.READY}, [('"deferred"', '"pending"')]),
        ({"1": State.READY, "1.1": State.CANCELLED}, []),
    ],
)
def test_a_status_of_task_master_is_written_back_and_no_other_byte(
    states: dict[str, State], changes: list[tuple[str, str]]
) -> None:
    after = TASKS
    for old, new in changes:
        assert TASKS.count(old) == 1
        after = after.replace(old, new)
    the_plan = plan.read("tasks.json", TASKS.encode()).plan
    statuses = {id: Status(state=state) for id, state in states.items()}
    marked = write_back(TASKS.encode(), the_plan, statuses)
    assert (marked.data.decode(), marked.gone) == (after, ())


def test_a_task_that_was_removed_is_reported_and_not_added() -> None:
    the_plan = plan.read("tasks.json", TASKS.encode()).plan
    now = b'{"tasks": [{"id": 2, "title": "w", "status": "pending"}]}'
    done = {id: Status(state=State.DONE) for id in ("1.1", "2")}
    marked = write_back(now, the_plan, done)
    assert marked.data == now.replace(b"pending", b"done")
    assert [task.id for task in marked.gone] == ["1.1"]


def test_a_file_in_the_middle_of_an_edit_is_left_for_later() -> None:
    the_plan = plan.read("prd.json", PRD.encode()).plan
    with pytest.raises(InputError, match="no JSON at present"):
        write_back(PRD.encode()[:-9], the_plan, {"US-1": DONE})


def test_notes_with_unreadable_bytes_stay_as_they_are() -> None:
    before = '[{"id": "a", "title": "t", "passes": false, "notes": "\udcff"}]'
    assert written("prd.json", before, a=DONE) == before.replace("false", "true")


WORDS = st.sampled_from(["pending", "done", "in-progress", "deferred", "blocked", "cancelled"])
BLANKS = st.sampled_from(["", " ", "\n", "\r\n  ", "\t"])


@st.composite
def documents(draw: st.DrawFn) -> str:
    """A tasks.json in which each task has a status, spaced in any way."""
    ids = iter(range(1, 99))

    def member(key: str, value: str) -> str:
        return f'{draw(BLANKS)}"{key}"{draw(BLANKS)}:{draw(BLANKS)}{value}{draw(BLANKS)}'

    def one_task(depth: int) -> str:
        members = [
            member("id", str(next(ids))),
            member("title", '"a \\" {} [,] \\u00e9"'),
            member("status", f'"{draw(WORDS)}"'),
            member("details", '"\\"status\\": \\"pending\\""'),
        ]
        if depth and draw(st.booleans()):
            parts = [one_task(depth - 1) for _ in range(draw(st.integers(0, 3)))]
            members.append(member("subtasks", f"[{','.join(parts)}]"))
        return "{" + ",".join(draw(st.permutations(members))) + "}"

    return f'{{"tasks":[{",".join(one_task(1) for _ in range(draw(st.integers(1, 4))))}]}}'


STATUS = re.compile(r'("status"\s*:\s*)"[a-z-]+"')


@given(text=documents(), data=st.data())
def test_only_the_status_of_the_named_tasks_changes(text: str, data: st.DataObject) -> None:
    parsed = plan.read("tasks.json", text.encode())
    ids = [task.id for task in parsed.plan.tasks]
    chosen = data.draw(st.dictionaries(st.sampled_from(ids), st.sampled_from(list(State))))
    statuses = {id: Status(state=state) for id, state in chosen.items()}
    after = write_back(text.encode(), parsed.plan, statuses).data.decode()
    assert STATUS.sub(r"\1", after) == STATUS.sub(r"\1", text)
    old, new = flat(json.loads(text)), flat(json.loads(after))
    assert {id for id in ids if old[id] != new[id]} <= chosen.keys()
    assert all(new[id] == "done" for id, state in chosen.items() if state is State.DONE)
    assert write_back(after.encode(), parsed.plan, statuses).data.decode() == after


def flat(document: Any) -> dict[str, str]:
    statuses = {}
    for task in document["tasks"]:
        statuses[str(task["id"])] = task["status"]
        for part in task.get("subtasks", ()):
            statuses[f"{task['id']}.{part['id']}"] = part["status"]
    return statuses
