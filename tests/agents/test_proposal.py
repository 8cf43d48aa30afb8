"""The step an agent proposes: hostile text, strictly read."""

from __future__ import annotations

import json
from contextlib import suppress
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from agents.streams import agent
from cases import each_case
from weft.agents.agent import Agent
from weft.agents.agent_file import parse_agent
from weft.agents.proposal import (
    AskStep,
    HandOverStep,
    SleepStep,
    WakeTime,
    claimed_files,
    find_problem,
    parse_block,
    parse_until,
    split_block,
)
from weft.errors import InputError

NOW = 1_794_000_000.0


def block(content: str, before: str = "Done.\n", after: str = "\n") -> str:
    return f"{before}```weft\n{content}\n```{after}"


@each_case(
    ("text", "content"),
    [
        (block("{}"), "{}"),
        (block("{}", before=""), "{}"),
        (block("{}", after="  \n\n"), "{}"),
        (block("a\nb"), "a\nb"),
        (block("{}", before="```weft\n{1}\n```\nlater:\n"), "{}"),
        (block("{}", after="\nI am not done.\n"), None),
        (block("{}").replace("```weft", "```weft-review"), None),
        (block("{}").replace("```weft", "```json"), None),
        (block("{}").replace("```weft", "x ```weft"), None),
        ("```weft\n```", None),
        ("```weft", None),
        ("", None),
    ],
)
def test_only_a_block_at_the_end_counts(text: str, content: str | None) -> None:
    before, inside = split_block(text)
    assert inside == content
    assert (before == text) == (content is None)
    assert content is None or "{}" not in before


@each_case(
    ("content", "step"),
    [
        ('{"step": "hand_over", "agent": "b"}', HandOverStep(agent="b")),
        (
            '{"step": "hand_over", "agent": "b", "note": "n", "args": {"x": "5", "y": 5}}',
            HandOverStep(agent="b", note="n", args={"x": "5", "y": 5}),
        ),
        ('{"step": "ask", "question": "Why?"}', AskStep(question="Why?")),
        ('{"step": "sleep", "until": "2h"}', SleepStep(until="2h")),
    ],
)
def test_a_step_is_read(content: str, step: object) -> None:
    assert parse_block(content) == step


@each_case(
    "content",
    [
        "",
        "hand_over b",
        "[]",
        "{}",
        '{"step": "hand_over"}',
        '{"step": "hand_over", "agent": ""}',
        '{"step": "hand_over", "agent": "b", "now": 1}',
        '{"step": "hand_over", "agent": "b", "args": {"x": {"y": 1}}}',
        '{"step": "hand_over", "agent": "b", "args": {"x": null}}',
        json.dumps({"step": "hand_over", "agent": "b", "args": {f"a{n}": 1 for n in range(21)}}),
        json.dumps({"step": "hand_over", "agent": "b", "note": "n" * 16_001}),
        json.dumps({"step": "ask", "question": "Why?", "options": ["o"] * 11}),
        '{"step": "sleep", "until": 5}',
        '{"step": "sleep", "until": "1h"} {"step": "sleep", "until": "2h"}',
        "[" * 60_000,
        "x" * 70_000,
    ],
)
def test_any_other_block_is_refused_with_the_form_of_a_step(content: str) -> None:
    with pytest.raises(InputError, match=r"longer than|cannot be read"):
        parse_block(content)


@given(st.text() | st.binary().map(lambda data: data.decode(errors="surrogateescape")))
def test_no_text_breaks_the_reader(text: str) -> None:
    _, content = split_block(block(text))
    if content is not None:
        with suppress(InputError):
            parse_block(content)


def receiver(**takes: str) -> Agent:
    return replace(agent(), name="b", takes=MappingProxyType(takes))


GIVER = replace(agent(), name="a", hands_to=("b",))
KINDS: dict[str, tuple[str | int | list[str], str | int | list[str]]] = {
    "text": ("x", 5),
    "number": (5, True),
    "boolean": (False, 1),
    "list": ([], "x"),
    "files": (["src/"], []),
}


@each_case("kind", KINDS)
def test_an_argument_has_the_type_of_the_next_agents_file(kind: str) -> None:
    good, bad = KINDS[kind]
    taking = receiver(x=kind)
    assert not find_problem(HandOverStep(agent="b", args={"x": good}), GIVER, taking)
    assert kind in find_problem(HandOverStep(agent="b", args={"x": bad}), GIVER, taking)
    assert "needs the argument 'x'" in find_problem(HandOverStep(agent="b"), GIVER, taking)


def test_only_listed_agents_and_arguments_are_taken() -> None:
    unlisted = find_problem(HandOverStep(agent="c"), GIVER, receiver())
    assert unlisted == "a may not hand over to 'c', only to b."
    unknown = HandOverStep(agent="b", args={"y": "1"})
    assert "no argument 'y'" in find_problem(unknown, GIVER, receiver())


@each_case("file", ["/etc/passwd", "../out", "a/../../b", ".git/config"])
def test_no_argument_claims_a_file_outside_the_repository(file: str) -> None:
    step = HandOverStep(agent="b", args={"x": [file]})
    taking = receiver(x="files")
    assert claimed_files(step, taking) == (file,)
    if file != ".git/config":
        assert find_problem(step, GIVER, taking)


@each_case(
    ("text", "end"),
    [
        ("2h", WakeTime(at=NOW + 7200)),
        ("1d 30m", WakeTime(at=NOW + 88_200)),
        ("trunk moved", WakeTime(at=NOW + 604_800, trunk=True)),
        ("task 12 done", WakeTime(at=NOW + 604_800, task="12")),
        ("task  1.2 is done", WakeTime(at=NOW + 604_800, task="1.2")),
        ("2026-11-06T22:00:00Z", WakeTime(at=1_794_002_400.0)),
        ("2026-11-06T22:00:00", WakeTime(at=1_794_002_400.0)),
    ],
)
def test_the_end_of_a_sleep_is_a_time_or_an_event(text: str, end: WakeTime) -> None:
    assert parse_until(text, now=NOW) == end


@each_case(
    "text", ["", "soon", "0s", "8d", "2020-01-01", "task done", "9999999999d", "٢h", "2h; rm"]
)
def test_any_other_end_of_a_sleep_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        parse_until(text, now=NOW)


@each_case(
    ("front", "args", "takes"),
    [
        ("args: [--fast]", ("--fast",), {}),
        ("args: --fast --far", ("--fast", "--far"), {}),
        ("args: {issue: text}", (), {"issue": "text"}),
        ("args: [--fast, {issue: text, n: number}]", ("--fast",), {"issue": "text", "n": "number"}),
    ],
)
def test_args_of_a_file_are_for_the_program_or_for_a_hand_over(
    front: str, args: tuple[str, ...], takes: dict[str, str]
) -> None:
    made = parse_agent(f"---\nruns: claude\n{front}\n---\n", name="x", file="x.md")
    assert (made.args, dict(made.takes)) == (args, takes)


@each_case(
    ("front", "problem"),
    [
        ("args: {issue: string}", "one of text, number, boolean, list, files"),
        ("args: {is-sue: text}", "`NAME: type`"),
        ("hops: 0", "from 1 to 1000"),
        ("hands_to: {a: b}", "a list of names"),
    ],
)
def test_a_wrong_setting_of_a_chain_is_an_error_with_its_line(front: str, problem: str) -> None:
    with pytest.raises(InputError, match=r"x\.md, line 3: ") as error:
        parse_agent(f"---\nruns: claude\n{front}\n---\n", name="x", file="x.md")
    assert problem in str(error.value)
