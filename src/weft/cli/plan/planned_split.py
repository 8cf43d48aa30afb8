"""The split of a task by a planner."""

from __future__ import annotations

import os
from pathlib import Path

import click
from msgspec import Struct

from weft.cli.plan.planner_rounds import describe_cost, run_rounds
from weft.errors import InputError
from weft.plan.split_writer import NewPart
from weft.project.project import get_project
from weft.runs.plan_splitting import SplitTask
from weft.runs.planner import find_planner
from weft.runs.split_request import judge_split, read_parts, request_split

_NAME = "the split"


class PlannedSplit(Struct, frozen=True, kw_only=True):
    agent: str
    parts: tuple[NewPart, ...]


def ask_planner(
    directory: Path, split: SplitTask, agent: str | None, *, quiet: bool
) -> PlannedSplit | None:
    """Have a planner write the parts of a task; None if there is no planner, or no good split.

    A planner that was named and cannot be used is an error.
    """
    project = get_project(directory, os.environ)
    try:
        planner = find_planner(project, agent)
    except InputError:
        if agent is not None:
            raise
        return None
    result = run_rounds(
        project,
        planner,
        lambda last: request_split(project, split, planner, last),
        lambda answer: judge_split(project, split, answer, _NAME),
        quiet=quiet,
    )
    click.echo(describe_cost(result), err=True)
    if result.interrupted:
        raise KeyboardInterrupt
    if result.plan is None or result.problems or result.end:
        why = result.end or "its split has problems"
        click.echo(f"weft: {why} The groups of files are taken instead.", err=True)
        return None
    return PlannedSplit(agent=planner, parts=tuple(read_parts(result.plan, _NAME)))
