"""Prompt templates: Jinja, strict, checked before any agent runs.

`check` refuses syntax errors and unknown variables with the line of the agent file;
`list_mentioned` returns the variables a template uses; `render` fills it in. Values are data: text
that looks like a template inside a value stays as it is. The sandbox keeps a template from reaching
into weft; it need not stop a hostile author, whose file names the program to run anyway.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from types import MappingProxyType, TracebackType
from typing import Any, Final

from jinja2 import StrictUndefined, TemplateError, TemplateSyntaxError, meta, nodes
from jinja2.sandbox import SandboxedEnvironment

from weft.agents.frontmatter import fail
from weft.errors import InputError

VARIABLES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "task.name": "the task's id in its plan",
        "task.title": "its first sentence, at most 80 characters",
        "task.text": "all of it, sub-bullets included",
        "task.files": "what it may change",
        "task.reads": "what it should read",
        "plan": "the title of the plan",
        "phase": "the phase of the task",
        "stage": "plan, test, implement, review, judge or lead",
        "attempt": "the number of this attempt, from 1",
        "criteria": "the acceptance criteria, a list",
        "prose": "the prose of the plan and of the phase",
        "spec": "the part of the specification that concerns the task",
        "needs": "what it builds on: a list with name, summary and commit",
        "tests": "test files it may not edit",
        "refusal": "why the last attempt was refused",
        "review": "a person's comments on the last candidate, and how to answer them",
        "change": "the commits to look at: change.base and change.candidate",
        "findings": "what checks and reviewers said about the change",
        "messages": "what others wrote to it: a list with sender and text",
        "sent": "tasks it has sent: a list with task, name, state and summary",
        "note": "the note of the agent that handed the task over",
        "args": "the arguments of the hand-over, by name",
        "steps": "the agents it may hand over to, and how to end with a step",
        "tools": "what weft's own tools are for, where there are any",
        "rules": "what every agent must keep to",
    }
)
"""The variables of templates."""

_RECORDS: Final = frozenset(name.split(".")[0] for name in VARIABLES if "." in name)
_SOURCE: Final = "<template>"  # how jinja calls a template without a file in tracebacks


def _environment() -> SandboxedEnvironment:
    environment = SandboxedEnvironment(undefined=StrictUndefined, autoescape=False)
    environment.globals.clear()  # a template needs no ranges and no filler text
    return environment


_ENVIRONMENT: Final = _environment()


def check(source: str, file: str, first_line: int) -> None:
    tree = _parsed(source, file, first_line)
    for name, line in _uses(tree):
        if name not in VARIABLES:
            raise fail(file, line + first_line - 1, _unknown(name))


def list_mentioned(source: str) -> frozenset[str]:
    return frozenset(name for name, _ in _uses(_ENVIRONMENT.parse(source)))


def render(source: str, variables: Mapping[str, Any], file: str, first_line: int) -> str:
    try:
        return _ENVIRONMENT.from_string(source).render(variables)
    except (TemplateError, ArithmeticError, LookupError, TypeError, ValueError) as error:
        line = _line_of(error.__traceback__) + first_line - 1
        raise fail(file, line, f"the template cannot be filled in: {error}.") from error


def _parsed(source: str, file: str, first_line: int) -> nodes.Template:
    try:
        _ENVIRONMENT.compile(source)  # finds unknown filters and tests, which parsing does not
        return _ENVIRONMENT.parse(source)
    except TemplateSyntaxError as error:
        line = error.lineno + first_line - 1
        raise fail(file, line, f"the template is not valid: {error.message}") from error
    except RecursionError as error:
        raise InputError(f"{file}: the template is nested too deeply.") from error


def _uses(tree: nodes.Template) -> Iterator[tuple[str, int]]:
    """Yield the variables from outside, by their full names, with their lines."""
    outside = meta.find_undeclared_variables(tree)
    inside = set()
    parts: list[nodes.Getattr | nodes.Getitem] = [*tree.find_all(nodes.Getattr)]
    for node in [*parts, *tree.find_all(nodes.Getitem)]:
        record = node.node
        if isinstance(record, nodes.Name) and record.name in _RECORDS & outside:
            inside.add(id(record))
            yield f"{record.name}.{_part(node)}", node.lineno
    for name in tree.find_all(nodes.Name):
        if name.ctx == "load" and name.name in outside and id(name) not in inside:
            yield name.name, name.lineno


def _part(node: nodes.Getattr | nodes.Getitem) -> str:
    if isinstance(node, nodes.Getattr):
        return node.attr
    return str(node.arg.value) if isinstance(node.arg, nodes.Const) else "?"


def _unknown(name: str) -> str:
    close = difflib.get_close_matches(name[:60], list(VARIABLES), n=1, cutoff=0.5)
    hint = f"Did you mean {close[0]}?" if close else f"Known: {', '.join(VARIABLES)}."
    return f"unknown variable {name!r}. {hint}"


def _line_of(trace: TracebackType | None) -> int:
    """Return the line of the template that raised; jinja's frames have the template's own lines."""
    line = 1
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == _SOURCE:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line
