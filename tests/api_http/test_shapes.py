"""Faces derive their JSON from the records: a new field of a record is public by itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from cases import each_case
from weft.api import fields
from weft.api.fields import TaskFields
from weft.api.http import wire
from weft.api.mcp import arguments, tool_results
from weft.api.shapes import Face, Shape
from weft.model import Class, Priority, Summary, Task, TaskRequest, Token
from weft.operations.member_records import Member, NewWork, Page

HTTP_NAMES = {"klass": "class", "demand": "uses", "request": "details", "attached": "details"}
OWN_OF_WEFT = {"sender", "repo", "stage", "provider", "agent_labels"}
"""Fields of new work that the server fills in."""


class Record(Struct, kw_only=True):
    id: int
    secret: str
    rank: Priority
    wish: str = "new"


class Envelope(Struct, kw_only=True):
    records: tuple[Record, ...]


def public_fields(face: Face, record: type[Struct]) -> set[str]:
    return {info.encode_name for info in msgspec.structs.fields(face.describe(record))}


def test_every_field_of_a_task_is_in_the_http_answer_or_internal() -> None:
    expected = {HTTP_NAMES.get(name, name) for name in Task.__struct_fields__} - wire.INTERNAL
    assert public_fields(wire.FACE, Task) == expected


def test_every_field_of_a_task_is_in_the_mcp_answer_or_of_no_use_to_a_model() -> None:
    shown = {"task" if name == "id" else name for name in Task.__struct_fields__}
    assert public_fields(tool_results.FACE, Task) == shown - tool_results.UNREAD


def test_every_field_of_a_listed_task_is_in_the_http_answer() -> None:
    expected = {HTTP_NAMES.get(name, name) for name in Summary.__struct_fields__}
    assert public_fields(wire.FACE, Summary) == expected


def test_everything_a_task_asks_for_is_in_its_details() -> None:
    request = TaskRequest(title="t", check="make", budget=1, reads=("a",))
    shape = wire.FACE.describe(Task)
    shown = wire.show(make_task(request=request, attached={"mine": 1}))
    assert shown["details"] == {**json_of(request), "mine": 1}
    assert shown["details"].keys() <= {*TaskRequest.__struct_fields__, "mine"}
    assert {*shown} == {info.encode_name for info in msgspec.structs.fields(shape)}


def test_every_field_of_new_work_can_be_sent_over_http_or_is_the_servers() -> None:
    assert {*NewWork.__struct_fields__} - {*fields.NewTaskBody.model_fields} == OWN_OF_WEFT


def test_both_faces_take_a_task_by_the_same_fields() -> None:
    own = {*TaskFields.model_fields}
    assert own <= {*arguments.SendTask.model_fields}
    assert own <= {*fields.NewTaskBody.model_fields}
    sent = {"text": "do it", "class": "batch", "priority": "low", "needs": [1], "files": ["a"]}
    over_http = fields.NewTaskBody.model_validate({**sent, "details": {"k": 1}}).work()
    over_mcp = arguments.SendTask.model_validate(sent).work()
    assert over_mcp == NewWork(
        text="do it", klass=Class.BATCH, priority=Priority.LOW, needs=(1,), files=("a",)
    )
    assert over_http == msgspec.structs.replace(over_mcp, attached={"k": 1})


def test_a_new_field_of_a_record_is_public_without_a_change_of_the_face() -> None:
    face = Face({Record: Shape(hidden=frozenset({"secret"}), renamed={"id": "number"})})
    envelope = Envelope(records=(Record(id=1, secret="s", rank=Priority.LOW),))
    assert face.show(envelope) == {"records": [{"number": 1, "rank": "low", "wish": "new"}]}
    shown = msgspec.convert(face.show(envelope), face.describe(Envelope))
    assert json_of(shown) == face.show(envelope)


@each_case("record", [Member, Page, Token])
def test_a_shape_has_the_name_of_its_record_in_documents(record: type[Struct]) -> None:
    assert wire.FACE.describe(record).__name__ in (record.__name__, "TaskPage")


def json_of(record: Struct) -> Any:
    return msgspec.json.decode(msgspec.json.encode(record))


def make_task(**fields: Any) -> Task:
    blanks: Mapping[type, Any] = {int: 0, float: 0.0, str: ""}
    values = {
        info.name: blanks.get(info.type)
        for info in msgspec.structs.fields(Task)
        if info.required and info.name not in fields
    }
    known = {"klass": Class.STANDARD, "priority": Priority.NORMAL, "demand": {}, "files": ()}
    return Task(**{**values, **known, **fields})
