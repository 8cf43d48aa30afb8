"""Recordings: which of them an attempt plays, and files that are none."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from cases import each_case
from weft.agents.recording import (
    LARGEST,
    VERSION,
    RecordedExit,
    RecordedLine,
    Recording,
    RecordingMiss,
    choose,
    decode_recording,
    digest_prompt,
    encode_recording,
    normalise_prompt,
)
from weft.errors import InputError

PROMPT = "## Your task\n\nAdd a.\n\n## Rules\n\n- Never push."


def recorded(prompt: str = PROMPT, *, task: str = "1.1", attempt: int = 1) -> Recording:
    return Recording(
        task=task,
        run="plan-1",
        stage="implement",
        agent="a",
        attempt=attempt,
        adapter="scripted",
        argv=("a",),
        prompt=prompt,
        digest=digest_prompt(prompt, "plan-1"),
        lines=(RecordedLine(0.5, "out", "a \udcff line"),),
        exit=RecordedExit(why="ended", code=0),
    )


def play(*known: Recording, prompt: str = PROMPT, attempt: int = 1, task: str = "1.1") -> Recording:
    return choose(known, task=task, stage="implement", attempt=attempt, prompt=prompt, run="plan-2")


def test_a_recording_survives_its_file() -> None:
    made = recorded()
    assert decode_recording(encode_recording(made), "x") == made


@each_case(
    ("first", "second"),
    [
        ("2.1 (commit 0a1b2c3d)", "2.1 (commit 9f8e7d6c)"),
        ("in plan-1/1.2", "in plan-2/1.2"),
        ("at /tmp/x/y.py line 3", "at /dev/shm/z/y.py line 3"),
        ("Ran 3 tests in 0.01s", "Ran 3 tests in 1.20s"),
        (
            "## Why the last attempt was refused\n\nThis is attempt 2.\n\nred\n\n## Rules",
            "## Why the last attempt was refused\n\nThis is attempt 3.\n\nconflict\n\n## Rules",
        ),
    ],
)
def test_parts_that_differ_from_run_to_run_do_not_count(first: str, second: str) -> None:
    assert normalise_prompt(first, "plan-1") == normalise_prompt(second, "plan-2")


@each_case(("first", "second"), [("Add a.", "Add b."), ("deadbeef", "facade")])
def test_words_of_a_prompt_count(first: str, second: str) -> None:
    assert normalise_prompt(first, None) != normalise_prompt(second, None)


def test_the_recording_of_the_same_attempt_is_played_among_equal_prompts() -> None:
    known = [recorded(attempt=number) for number in (3, 1, 2)]
    assert [play(*known, attempt=number).attempt for number in (1, 2, 3, 4)] == [1, 2, 3, 3]


def test_a_miss_names_the_nearest_recording_and_its_first_difference() -> None:
    far = recorded("Something else.", attempt=1)
    near = recorded(PROMPT.replace("Never push", "Push now"), attempt=2)
    with pytest.raises(RecordingMiss) as miss:
        play(far, near)
    assert str(miss.value) == (
        "No recording fits attempt 1 of task 1.1: nearest is attempt 2 of it, but line 7 of its "
        "prompt was '- Push now.' and is '- Never push.'."
    )


def test_a_miss_of_the_task_names_a_near_task() -> None:
    with pytest.raises(RecordingMiss, match=r"no recording is of this task; near is 1\.1\."):
        play(recorded(), recorded(task="zz"), task="1.2")
    with pytest.raises(RecordingMiss, match=r"there are no recordings"):
        play()


def test_a_recording_of_a_later_weft_is_refused() -> None:
    data = encode_recording(replace(recorded(), version=VERSION + 1))
    with pytest.raises(InputError, match=r"x has version 2 .*upgrade weft"):
        decode_recording(data, "x")


@each_case("data", [b"", b"[]", b"{}", b"\xff", b"[" * 100_000, b'{"version": "1"}'])
def test_a_file_that_is_no_recording_is_refused_by_name(data: bytes) -> None:
    with pytest.raises(InputError, match=r"^some\.json is no recording of weft"):
        decode_recording(data, "some.json")


def test_a_recording_is_bounded() -> None:
    with pytest.raises(InputError, match="64 MB"):
        decode_recording(b" " * (LARGEST + 1), "x")


@given(st.recursive(st.none() | st.booleans() | st.text(), st.lists, max_leaves=5))
def test_no_value_in_a_field_breaks_the_reader(value: object) -> None:
    fields = json.loads(encode_recording(recorded()))
    for name in fields:
        try:
            decode_recording(json.dumps({**fields, name: value}).encode(), "x")
        except InputError:
            continue
