"""The questions to a planner, for several plan commands: a plan, the parts of a task, its files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click

from weft.cli.output import say
from weft.cli.task_follower import TaskFollower, follow_to_end
from weft.errors import InputError
from weft.formats import count, dollars, duration
from weft.model import Event
from weft.operations.planner import (
    JudgedPlan,
    LastPlan,
    find_planner,
    judge_answer,
    judge_files,
    read_files,
    request_files,
    request_plan,
    require_goal,
)
from weft.operations.planner_rounds import PlanningResult, run_rounds
from weft.operations.split_request import judge_split, read_parts, request_split
from weft.plan.plan_records import PlanTask
from weft.plan.problems import shorten
from weft.plan.split_writer import NewPart
from weft.project.project import Project, get_project
from weft.runs.plan_splitting import SplitTask
from weft.runs.plan_words import problem_lines
from weft.store import Store
from weft.store.event_log import last_event

_NAME: Final = "the split"
_FILES: Final = "the files"
_WIDTH: Final = 76  # columns of a line of the planner's


def write_plan(
    directory: Path, goal: str, agent: str | None, file: str, *, quiet: bool
) -> PlanningResult:
    """Have a planner write the plan of a goal."""
    require_goal(goal)
    project = get_project(directory, os.environ)
    planner = find_planner(project, agent)
    return _run_rounds(
        project,
        planner,
        lambda last: request_plan(project, goal, planner, last),
        lambda answer: judge_answer(project, answer, file),
        quiet=quiet,
    )


def ask_planner(
    directory: Path, split: SplitTask, agent: str | None, *, quiet: bool
) -> tuple[str, tuple[NewPart, ...]] | None:
    """Have a planner write the parts of a task; return its name and the parts.

    Return None if there is no planner, or no good split. A planner that was named and cannot be
    used is an error.
    """
    answer = _ask(
        directory,
        agent,
        lambda project, planner, last: request_split(project, split, planner, last),
        lambda project, answer: judge_split(project, split, answer, _NAME),
        instead="The groups of files are taken instead.",
        quiet=quiet,
    )
    return None if answer is None else (answer[0], tuple(read_parts(answer[1], _NAME)))


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
    result = _run_rounds(
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


def _run_rounds(
    project: Project,
    planner: str,
    request: Callable[[LastPlan | None], int],
    judge: Callable[[str], JudgedPlan],
    *,
    quiet: bool,
) -> PlanningResult:
    def attend(store: Store, task: int) -> int:
        follower = PlannerFollower(store, task, after=last_event(store), quiet=quiet)
        return follow_to_end(project, store, task, follower)

    tell = (lambda line: None) if quiet else say
    return run_rounds(project, planner, request, judge, attend, tell)


class PlannerFollower(TaskFollower):
    """Prints the progress of a planner, a line for each message or tool; not its plan."""

    def _tell_report(self, report: Mapping[str, Any]) -> None:
        if report["type"] == "text":
            text = report["text"].strip()
        elif report["type"] == "tool":
            text = f"{report['name']} {report['detail']}".strip()
        else:
            return
        if text:
            self._say(f"  {shorten(text.splitlines()[0], _WIDTH)}")

    def _tell_result(self, result: str) -> None:
        """Print nothing: the plan is in its file."""

    def tell(self, event: Event) -> None:
        if event.kind != "attempt_finished" or event.data["outcome"] != "success":
            super().tell(event)


def result_lines(result: PlanningResult, file: str) -> Iterator[str]:
    """Yield the end of the rounds for people: problems, cost and next step."""
    yield ""
    for problem in result.problems:
        yield from problem_lines(problem)
    if result.end:
        yield result.end
    if result.plan is None:
        yield "No plan was written."
    else:
        wrong = count(len(result.problems), "problem") if result.problems else "no problems"
        yield f"Wrote {file}: {count(result.tasks, 'task')}, {wrong}. Nothing was run."
    yield describe_cost(result)
    if result.plan is not None:
        edit = f"edit {file}, then weft plan check {file}"
        yield f"next: {edit if result.problems else f'weft plan show {file}'}"


def describe_cost(result: PlanningResult) -> str:
    tokens = f", {result.tokens:,} tokens" if result.tokens else ""
    cost = dollars(result.micro_usd) if result.micro_usd else "no reported cost"
    rounds = count(result.rounds, "round")
    return f"Planning took {rounds}, {duration(result.seconds)}{tokens}, {cost}."
