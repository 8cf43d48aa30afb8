"""The words that people read: a word for each state, names of tasks, and no odd words."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import click

import weft
from weft.cli import COMMANDS
from weft.cli.command_group import load_command
from weft.formats import clock
from weft.model import HUMAN, State
from weft.words import STATE_WORDS, count_states, progress_text, state_word, task_label

SOURCES = Path(weft.__file__).parent
ODD = re.compile(
    r"\b(mend(s|ed|ing)?|binds?|stands?|com(e|es|ing) to|came to|said of|has its candidate|"
    r"time has come|somebody|nobody|whoever)\b",
    re.IGNORECASE,
)
CALLED_BIND = {"cli/serve.py", "api/http/socket.py", "process/box.py"}
"""Sources that bind sockets or directories, which is the word for that."""
ELSEWHERE = {"scripted.py"}
"""Programs of their own, which print no text of weft."""


def test_each_state_has_one_word() -> None:
    assert {str(state) for state in STATE_WORDS} == {state.value for state in State}
    assert len(set(STATE_WORDS.values())) == len(State)
    assert state_word("running") == "working"
    assert state_word("running", stage="review") == "in review"
    assert state_word("ready", agent=HUMAN) == state_word("blocked") == "needs you"
    assert state_word("gating") == "testing"
    assert state_word("parked", until=0.0) == f"parked until {clock(0.0)}"


def test_counts_of_states_are_sentences() -> None:
    counts = {"done": 2, "skipped": 1, "blocked": 2, "running": 1}
    assert count_states(counts) == "1 working, 2 need you, 1 skipped, 2 done"
    assert progress_text(counts) == "2 of 6 done, 1 working, 2 need you, 1 skipped"
    assert progress_text({"done": 1}) == "1 of 1 done"


def test_a_task_is_called_by_its_plan_and_without_one_by_its_number() -> None:
    assert task_label(7, "plan-1", "1.2") == "plan-1/1.2"
    assert task_label(7, "plan-1", "1.2", within="plan-1") == "1.2"
    assert task_label(7, None, "x") == task_label(7, "", "x") == "7"


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the texts of a source that people may read: no docstrings, and no single words."""
    tree = ast.parse(path.read_text())
    silent = {id(part) for node in ast.walk(tree) for part in _unread(node)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or id(node) in silent:
            continue
        if isinstance(node.value, str) and " " in node.value.strip():
            yield node.lineno, node.value


def _unread(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the docstring of a node, and the texts that a test of weft asserts."""
    if isinstance(node, ast.Expr):  # docstrings of modules, classes, functions and attributes
        yield node.value
    if isinstance(node, ast.Assert) and node.msg is not None:
        yield node.msg


def commands(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    yield name, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for part in command.list_commands(context):
            child = command.get_command(context, part)
            if child is not None:
                yield from commands(child, f"{name} {part}")


def test_no_text_of_weft_has_an_odd_word() -> None:
    odd = []
    for path in sorted(SOURCES.rglob("*.py")):
        file = str(path.relative_to(SOURCES))
        for line, text in texts(path) if file not in ELSEWHERE else ():
            if ODD.search(text) and not (file in CALLED_BIND and "ind" in text):
                odd.append((file, line, text))
    assert odd == []


def test_no_help_has_an_odd_word() -> None:
    odd = []
    for name in COMMANDS:
        for called, command in commands(load_command(COMMANDS[name][0]), name):
            helps = [command.help or "", command.short_help or ""]
            helps += [
                option.help or "" for option in command.params if isinstance(option, click.Option)
            ]
            odd += [(called, text) for text in helps if ODD.search(text)]
    assert odd == []
