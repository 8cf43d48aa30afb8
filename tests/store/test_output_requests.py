"""Requests for output are answered once, by their host, and soon forgotten."""

from __future__ import annotations

import pytest

from store_helpers import url as url
from weft.errors import Forbidden, InputError, NotFound, Refused
from weft.operations.host_rights import require_right
from weft.operations.identity import Identity
from weft.store import Store
from weft.store.check_orders import (
    LARGEST,
    answer_output_request,
    find_output_answer,
    list_output_requests,
    request_output,
)


def ask(store: Store, host: str = "h", *, now: float = 1.0) -> str:
    return request_output(
        store, host=host, task=1, attempt=2, stream="stderr", start=3, ended=True, now=now
    )


def test_a_host_sees_its_own_open_requests_and_the_first_answer_counts(store: Store) -> None:
    mine, _ = ask(store), ask(store, "other")
    [request] = list_output_requests(store, "h")
    assert (request.id, request.task, request.attempt) == (mine, 1, 2)
    assert (request.stream, request.start, request.ended) == ("stderr", 3, True)
    assert find_output_answer(store, mine) is None
    with pytest.raises(InputError, match="at most"):
        answer_output_request(store, mine, "x" * (LARGEST + 1))
    assert answer_output_request(store, mine, "first")
    assert not answer_output_request(store, mine, "second")
    assert find_output_answer(store, mine) == "first"
    assert list_output_requests(store, "h") == []


def test_requests_and_answers_are_kept_for_a_minute_and_are_bounded(store: Store) -> None:
    old = ask(store)
    for _ in range(199):
        ask(store)
    with pytest.raises(Refused, match="200 requests"):
        ask(store, now=60.0)
    young = ask(store, now=62.0)
    with pytest.raises(NotFound):
        find_output_answer(store, old)
    assert [request.id for request in list_output_requests(store, "h")] == [young]


def test_a_host_answers_no_request_to_another_host(store: Store) -> None:
    who = Identity(token="t", name="host h", scopes=frozenset({"read"}), tenant=None, worker="h")
    verb = "check_orders.answer_output_request"
    require_right(store, who, verb, {"id": ask(store)}, "r")
    with pytest.raises(Forbidden):
        require_right(store, who, verb, {"id": ask(store, "other")}, "r")
