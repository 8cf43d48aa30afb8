"""What tools take: as much as the same operation takes over HTTP."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from cases import each_case
from weft.api import fields
from weft.api.mcp import arguments

BOUNDS = [
    "minLength",
    "maxLength",
    "pattern",
    "minItems",
    "maxItems",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "enum",
    "const",
]


def bounds_of(schema: dict[str, Any]) -> dict[str, Any]:
    """What a value must be, without what is said about it; that it may be null is no bound."""
    kinds = [one for one in schema.get("anyOf", []) if one.get("type") != "null"]
    one = {**schema, **(kinds[0] if kinds else {})}
    found = {name: one[name] for name in BOUNDS if name in one}
    return {**found, "items": bounds_of(one["items"])} if "items" in one else found


@each_case(
    ("tool", "body", "shared"),
    [
        (arguments.SendTask, fields.NewTaskBody, 10),
    ],
)
def test_a_field_of_both_faces_has_the_same_bounds_in_both(
    tool: type[BaseModel], body: type[BaseModel], shared: int
) -> None:
    here = tool.model_json_schema()["properties"]
    there = body.model_json_schema()["properties"]
    both = here.keys() & there.keys()
    assert len(both) == shared
    for name in both:
        assert bounds_of(here[name]) == bounds_of(there[name]), name
