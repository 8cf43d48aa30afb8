"""What happened, in words: each kind of event that is written has some, or is silent on purpose."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from string import Formatter
from typing import Any

from msgspec import Struct

import weft
from cases import each_case
from weft.cli.run_text import RunLines
from weft.model import Event
from weft.runs.event_text import SPECIAL, TEXTS, About, Teller, line

SOURCES = Path(weft.__file__).parent
COMPUTED = {
    ("store/ready.py", "wake_due"): {"task_unparked", "offer_withdrawn"},
    ("store/ready.py", "end_task"): {"task_cancelled", "task_evicted", "task_skipped"},
    ("store/gate.py", "doubt_base"): {"base_doubted"},
    ("store/gate.py", "doubt_set_up"): {"base_doubted"},
    ("store/database.py", "event"): set[str](),
}
"""Where a kind is worked out, and what it can be."""
SILENT = {
    "branch_landing_intended",
    "check_ordered",  # the verdict names the host
    "check_withdrawn",
    "entry_rejected",  # the tasks of the entry have lines of their own
    "landed",  # likewise
    "landing_intended",
    "lease_taken",
    "limit_dropped",
    "step_proposed",  # the end of the attempt tells it
    "tool_called",  # for recordings
}
"""Kinds of events that have no line."""
ADDED = {
    *("who", "of", "tried", "reason", "whole_reason"),
    *("task_count", "slot_count", "was_word"),
}


class Written(Struct, frozen=True, kw_only=True):
    """A place in the sources that writes an event."""

    file: str
    function: str
    kind: str | None  # None: worked out
    fields: frozenset[str]


@cache
def written() -> tuple[Written, ...]:
    found = []
    for path in sorted(SOURCES.rglob("*.py")):
        source = path.read_text()
        if any(word in source for word in (".event(", ".log(")):
            file = str(path.relative_to(SOURCES))
            found += [
                Written(
                    file=file,
                    function=function.name,
                    kind=str(kind.value) if isinstance(kind, ast.Constant) else None,
                    fields=frozenset(one.arg for one in call.keywords if one.arg),
                )
                for function in ast.walk(ast.parse(source))
                if isinstance(function, ast.FunctionDef)
                for call in ast.walk(function)
                if isinstance(call, ast.Call) and (kind := kind_of(call)) is not None
            ]
    return tuple(found)


def kind_of(call: ast.Call) -> ast.expr | None:
    """What names the kind in a call that writes an event."""
    match call.func:
        case ast.Attribute(value=ast.Name(id="tx" | "self"), attr="event" | "log"):
            return call.args[0]
    return None


def all_kinds() -> set[str]:
    plain = {one.kind for one in written() if one.kind is not None}
    return plain.union(*COMPUTED.values())


def test_every_kind_of_event_is_told_or_silent_on_purpose() -> None:
    kinds = all_kinds()
    assert len(kinds) > 40
    assert {"progress", "checked"} <= kinds
    told = TEXTS.keys() | SPECIAL.keys()
    assert not told & SILENT
    assert kinds == told | SILENT, "and nothing is told that never happens"


def test_where_a_kind_is_worked_out_is_known() -> None:
    assert {(one.file, one.function) for one in written() if one.kind is None} == COMPUTED.keys()


@each_case("kind", sorted(TEXTS))
def test_a_text_speaks_only_of_what_its_event_says(kind: str) -> None:
    wanted = {name for _, name, _, _ in Formatter().parse(TEXTS[kind]) if name} - ADDED
    for place in written():
        if place.kind == kind:
            assert wanted <= place.fields, place


def event(kind: str, task: int | None = 1, run: str | None = "r", **data: Any) -> Event:
    return Event(id=1, at=0.0, kind=kind, run=run, task=task, data=data)


NAMED = About(task="1.1", title="Write a", naming={1: "1.1", 2: "1.2"}.__getitem__)
CHECK: dict[str, Any] = {"check_id": "c", "entries": ["1.1", "2.1"], "seconds": 0.5}
SAID = [
    (event("task_admitted", attempt=1, worker="w"), "▶ attempt 1 at w", "▶ 1.1: Write a"),
    (
        event("task_admitted", attempt=2, worker="w"),
        "▶ attempt 2 at w",
        "▶ 1.1, attempt 2: Write a",
    ),
    (
        event("attempt_finished", attempt=1, outcome="success", state="gating", reason=""),
        "✓ attempt 1: the agent is done → testing",
        "✓ 1.1: the agent is done → testing",
    ),
    (
        event("attempt_finished", attempt=1, outcome="crash", state="ready", reason="Oh.\nNo."),
        "✗ attempt 1: crash: Oh. → ready",
        "✗ 1.1: crash: Oh. → ready",
    ),
    (
        event("task_landed", commit="c" * 40),
        f"● landed as {'c' * 12}",
        f"● 1.1 landed as {'c' * 12}",
    ),
    (event("lease_reaped", proof="gone"), "✗ its process is gone: gone", None),
    (
        event("attempt_released", attempt=2, reason="reaped"),
        "↩ attempt 2 handed back: its worker is gone",
        None,
    ),
    (
        event("attempt_adopted", worker="w-2"),
        "▶ goes on: w-2 took it over from a dead worker",
        None,
    ),
    (event("task_cancelled", reason="cancelled"), "cancelled", "1.1 cancelled"),
    (event("task_cancelled", reason="by hand"), "cancelled: by hand", "1.1 cancelled: by hand"),
    (event("task_approved", note=""), "✓ approved", "✓ 1.1 approved"),
    (event("claims_extended", files=["a", "b"]), "  claims more: a, b", None),
    (
        event("checked", None, **CHECK, passed=True, flaked=False),
        "  check of 1, 2 passed in 0.5 s",
        "  check of 1.1, 1.2 passed in 0.5 s",
    ),
    (
        event("checked", None, **CHECK, passed=True, flaked=True),
        None,
        "! check of 1.1, 1.2 passed when tried again, in 0.5 s: flaky",
    ),
    (
        event("checked", None, **CHECK, passed=False, flaked=True),
        None,
        "! check of 1.1, 1.2 failed although it had passed, in 0.5 s: flaky",
    ),
    (
        event("progress", attempt=1, warning="No sandbox.", agent="a"),
        "! agent a: No sandbox.",
        None,
    ),
]


@each_case(("happened", "plain", "named"), SAID)
def test_an_event_in_words(happened: Event, plain: str | None, named: str | None) -> None:
    if plain is not None:
        assert line(happened) == plain
    if named is not None:
        assert line(happened, NAMED) == named


def test_what_programs_alone_care_about_is_not_told() -> None:
    assert line(event("progress", attempt=1, events=[{"type": "text", "text": "hm"}])) is None
    assert line(event("what_a_newer_weft_writes")) is None
    assert all(line(event(kind)) is None for kind in SILENT)


def test_a_cure_is_told_to_its_end_however_long_the_reason() -> None:
    """As the gate words it when somebody moved its trunk."""
    run = "a-plan-with-a-rather-long-name-20261116-1"
    reason = (
        f"weft/{run} is at {'1' * 12}, not at {'2' * 12} where weft left it: somebody else moved "
        f"it. Put it back (`git branch -f weft/{run} {'2' * 12}`), then `weft resume {run}`."
    )
    assert line(event("gate_blocked", None, reason=reason)) == f"! the gate needs you: {reason}"
    sent = line(event("task_sent_back", reason=reason))
    assert sent is not None
    assert sent.endswith(f"… `git branch -f weft/{run} {'2' * 12}`), then `weft resume {run}`.")


def test_the_same_warning_about_an_agent_is_told_once_to_each_reader() -> None:
    def warned(agent: str, attempt: int) -> Event:
        return event("progress", attempt=attempt, warning="No sandbox.", agent=agent)

    said: list[str] = []
    lines = RunLines("r", said.append)
    lines.tell([warned("a", 1), warned("a", 2), warned("b", 1)])
    assert [one.partition("] ")[2] for one in said] == [
        "! agent a: No sandbox.",
        "! agent b: No sandbox.",
    ]
    assert Teller().line(warned("a", 3)) == "! agent a: No sandbox."


def test_a_run_hears_of_what_holds_all_runs_up_and_of_no_other_run() -> None:
    said: list[str] = []
    lines = RunLines("r", said.append)
    lines.tell(
        [
            event("agent_stopped", None, None, agent="a", reason="No key."),
            event("worker_registered", None, None, worker="w", slots=1),
            event("gate_blocked", None, "another", reason="No."),
            event("run_started", None),
        ]
    )
    assert [one.partition("] ")[2] for one in said] == ["! agent a is stopped: No key."]


def test_a_line_names_the_first_of_many_files_and_counts_the_rest() -> None:
    told = line(event("claims_extended", files=[f"m/{n}" for n in range(30_000)]))
    assert told is not None
    assert told.endswith("m/6, m/7 and 29992 more")
