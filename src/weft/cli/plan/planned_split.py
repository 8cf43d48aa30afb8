"""Answers of a planner about tasks of a plan: their parts, and their files."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import click
from msgspec import Struct

from weft.cli.plan.planner_rounds import describe_cost, run_rounds
from weft.errors import InputError
from weft.plan.plan_records import PlanTask
from weft.plan.split_writer import NewPart
from weft.project.project import Project, get_project
from weft.runs.plan_request import LastPlan
from weft.runs.plan_splitting import SplitTask
from weft.runs.planned_files import judge_files, read_files, request_files
from weft.runs.planner import JudgedPlan, find_planner
from weft.runs.split_request import judge_split, read_parts, request_split

_NAME = "the split"
_FILES = "the files"


class PlannedSplit(Struct, frozen=True, kw_only=True):
    agent: str
    parts: tuple[NewPart, ...]


def ask_planner(
    directory: Path, split: SplitTask, agent: str | None, *, quiet: bool
) -> PlannedSplit | None:
    """Have a planner write the parts of a task; None if there is no planner, or no good split.

    A planner that was named and cannot be used is an error.
    """
    answer = _ask(
        directory,
        agent,
        lambda project, planner, last: request_split(project, split, planner, last),
        lambda project, answer: judge_split(project, split, answer, _NAME),
        instead="The groups of files are taken instead.",
        quiet=quiet,
    )
    if answer is None:
        return None
    return PlannedSplit(agent=answer[0], parts=tuple(read_parts(answer[1], _NAME)))


def ask_for_files(
    directory: Path, tasks: Sequence[PlanTask], agent: str | None, *, quiet: bool
) -> tuple[str, Mapping[str, tuple[str, ...]]] | None:
    """Have a planner name the files of tasks; return its name and the files by task, or None."""
    answer = _ask(
        directory,
        agent,
        lambda project, planner, last: request_files(project, tasks, planner, last),
        lambda project, answer: judge_files(project, tasks, answer, _FILES),
        instead="The files that the text names are taken instead.",
        quiet=quiet,
    )
    return None if answer is None else (answer[0], read_files(answer[1], _FILES))


def _ask(
    directory: Path,
    agent: str | None,
    request: Callable[[Project, str, LastPlan | None], int],
    judge: Callable[[Project, str], JudgedPlan],
    *,
    instead: str,
    quiet: bool,
) -> tuple[str, str] | None:
    """Run the rounds of a planner; return its name and its plan, None without a good plan."""
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
        lambda last: request(project, planner, last),
        lambda answer: judge(project, answer),
        quiet=quiet,
    )
    click.echo(describe_cost(result), err=True)
    if result.interrupted:
        raise KeyboardInterrupt
    if result.plan is None or result.problems or result.end:
        why = result.end or "its answer has problems."
        click.echo(f"weft: {why} {instead}", err=True)
        return None
    return planner, result.plan
