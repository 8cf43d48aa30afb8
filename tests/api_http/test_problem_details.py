"""Every error of weft's has a status, and one shape."""

from __future__ import annotations

import inspect
import json

from cases import each_case
from weft import errors
from weft.api.http import problem_details
from weft.errors import WeftError

KINDS = [
    one
    for _, one in inspect.getmembers(errors, inspect.isclass)
    if issubclass(one, WeftError) and one.__module__ == errors.__name__
]
STATUSES = {
    "AlreadyEnded": 409,
    "AtCapacity": 409,
    "Forbidden": 403,
    "InputError": 422,
    "NeverFits": 422,
    "NotFound": 404,
    "QueueFull": 429,
    "Refused": 409,
    "StaleFence": 409,
    "StillAnswering": 409,
    "StoreBusy": 503,
    "StoreError": 503,
    "Unauthenticated": 401,
}


@each_case("kind", KINDS)
def test_an_error_becomes_a_problem_with_its_status(kind: type[WeftError]) -> None:
    answer = problem_details.from_weft(None, kind("What happened."))  # type: ignore[arg-type]  # unused
    told = json.loads(bytes(answer.body))
    assert answer.status_code == told["status"] == STATUSES.get(kind.__name__, told["status"])
    assert answer.media_type == "application/problem+json"
    assert told["title"]
    assert told["type"].islower()
    assert ("retry-after" in answer.headers) == (answer.status_code in (429, 503))
    assert ("www-authenticate" in answer.headers) == (answer.status_code == 401)


def test_what_the_store_says_of_its_troubles_is_not_told_to_everybody() -> None:
    error = errors.StoreError("cannot open postgresql://user:password@host/db")
    answer = problem_details.from_weft(None, error)  # type: ignore[arg-type]  # unused
    assert b"password" not in bytes(answer.body)


def test_half_a_character_is_no_reason_to_say_nothing() -> None:
    answer = problem_details.from_weft(None, errors.InputError("\ud800"))  # type: ignore[arg-type]  # unused
    assert json.loads(bytes(answer.body))["detail"] == "?"
