"""Verbs called by name: what travels comes back as it was, and nonsense is refused."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec
import pytest

from cases import each_case
from store_helpers import first_fence
from weft import maintenance, operations, runs
from weft.candidate_records import Entry
from weft.errors import InputError
from weft.model import Class, Event, NewRun, NewTask, NewWorker, Stage, State, TaskRequest
from weft.store import Store, open_store
from weft.store.admission import admit
from weft.store.overview import overview
from weft.store.remote_calls import (
    Unreadable,
    all_verbs,
    arguments_of,
    convert,
    decode,
    encode,
    hints_of,
)
from weft.store.runs import read_history, submit_run
from weft.store.tasks import submit
from weft.store.workers import register

NOT_OFFERED: set[str] = set()
"""Verbs whose arguments or answers cannot travel; keep it tiny."""


def test_every_verb_can_be_called_from_afar_but_for_those_listed() -> None:
    for package in (maintenance, operations, runs):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    records = set()
    for name, verb in all_verbs().items():
        hints = dict(hints_of(verb.function))
        hints.pop("store" if verb.takes_store else "tx")
        try:
            for hint in hints.values():
                msgspec.json.Decoder(hint)
        except TypeError:
            records.add(name)
    assert records == NOT_OFFERED
    assert {"tasks.get_task", "limit_table.set_limit", "overview.overview"} <= set(all_verbs())
    assert all_verbs()["tasks.get_task"].kind == "read"
    assert all_verbs()["limit_table.set_limit"].kind == "write"


@pytest.fixture
def busy(tmp_path: Path) -> Iterator[Store]:
    """A store with something of everything."""
    with open_store(f"sqlite:///{tmp_path / 'weft.db'}") as store:
        _fill(store)
        yield store


def _fill(store: Store) -> None:
    register(store, NewWorker(id="w", slots=4, host="h"), now=1, stated={})
    tasks = [
        NewTask(
            name="a",
            text="do a",
            files=("a/**",),
            request=TaskRequest(stages=(Stage(name="x", agent="a"),)),
        ),
        NewTask(name="b", needs=("a",), klass=Class.BATCH),
    ]
    submit_run(store, NewRun(id="r", repo="here", limits={"agents": 2}), tasks, now=2)
    submit(store, NewTask(name="alone", demand={"llm": 1}), repo="here", now=3)
    admit(store, "w", now=4)


def test_every_answer_to_a_question_comes_back_as_it_was(busy: Store) -> None:
    arguments: dict[str, dict[str, Any]] = {
        "agents": {"agents": ["implement"]},
        "worker": {"worker": "w"},
        "ids": {"ids": {"w"}},
        "numbers": {"numbers": [1, 2]},
        "fences": {"fences": [first_fence(busy)]},
        "run": {"run": "r"},
        "task": {"task": 1},
        "fence": {"fence": first_fence(busy)},
        "name": {"name": "a"},
        "now": {"now": 5.0},
        "most": {"most": 10},
        "kind": {"kind": "crash"},
        "agent": {"agent": "implement"},
        "stage": {"stage": "x"},
        "tree": {"tree": "t"},
        "check_id": {"check_id": "c"},
        "repo": {"repo": "here"},
        "stated": {"stated": {}},
    }
    asked = 0
    for name, verb in all_verbs().items():
        hints = {key: hint for key, hint in hints_of(verb.function).items() if key != "tx"}
        answer = hints.pop("return")
        asked_for = verb.kind == "read" and not verb.takes_store and name not in _MISSING
        if not asked_for or not hints.keys() <= arguments.keys():
            continue
        given: dict[str, Any] = {}
        for key in hints:
            given |= arguments[key]
        before = busy.call(verb, (), given)
        assert convert(decode(encode(before)), answer) == before, name
        asked += 1
    assert asked > 30


_MISSING = {"gate.get_output"}  # there is none in this store


def test_records_lists_and_views_of_dictionaries_travel_as_arguments() -> None:
    new = NewTask(name="a", attached=MappingProxyType({"x": (1, 2)}), klass=Class.BATCH)
    called = decode(encode({"args": [new], "kwargs": {"repo": "here", "now": 1.0}}))
    args, kwargs = arguments_of(all_verbs()["tasks.submit"].function, called, {"now": 7.0})
    [task] = args
    assert task == NewTask(name="a", attached={"x": [1, 2]}, klass=Class.BATCH)
    assert kwargs == {"repo": "here", "now": 7.0}
    called = decode(encode({"args": [(s for s in State)], "kwargs": {}}))
    args, _ = arguments_of(all_verbs()["tasks.list_tasks"].function, called, {"now": 7.0})
    assert args == (list(State),)


def test_half_of_a_character_travels_both_ways() -> None:
    event = Event(id=1, at=1, kind="progress", run=None, task=1, data={"text": "a\ud800"})
    assert convert(decode(encode([event])), list[Event]) == [event]


def test_time_is_told_by_whoever_carries_it_out() -> None:
    cancel = all_verbs()["tasks.cancel"].function
    _, kwargs = arguments_of(cancel, {"args": [1], "kwargs": {"now": -5.0}}, {"now": 99.0})
    assert kwargs["now"] == 99.0


@each_case(
    "called",
    [
        None,
        [],
        {"args": {}, "kwargs": {}},
        {"args": [], "kwargs": {}},
        {"args": ["one"], "kwargs": {}},
        {"args": [1, 2], "kwargs": {}},
        {"args": [1], "kwargs": {"tx": 1}},
        {"args": [1], "kwargs": {}, "more": 1},
        {"args": [True], "kwargs": {}},
        {"args": [{"a": ["\0"]}], "kwargs": {}},
        {"args": [decode(b"[" * 900 + b"]" * 900)], "kwargs": {}},
    ],
)
def test_a_call_that_makes_no_sense_is_refused_in_a_sentence(called: object) -> None:
    with pytest.raises(InputError):
        arguments_of(all_verbs()["tasks.get_task"].function, called, {"now": 0})


@each_case("data", [b"", b"{", b"[" * 100_000, b"\xff", b"<html>"])
def test_what_is_not_json_is_unreadable(data: bytes) -> None:
    with pytest.raises(Unreadable):
        decode(data)


def test_an_answer_of_another_shape_is_unreadable() -> None:
    for nonsense in (b"1", b"{}", b'{"id": 1}', b"[[]]"):
        with pytest.raises(Unreadable):
            convert(decode(nonsense), Entry)


def test_an_overview_and_a_history_are_the_same_after_the_journey(busy: Store) -> None:
    seen = overview(busy, most=10)
    assert "" in seen.runs
    assert convert(decode(encode(seen)), type(seen)) == seen
    past = read_history(busy, "r", now=9)
    assert convert(decode(encode(past)), type(past)) == past
