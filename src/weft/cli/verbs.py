"""Commands that change tasks and runs: `weft approve`, `weft cancel`, `weft drain` …"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import click
from msgspec import Struct
from msgspec.structs import asdict

from weft.cli.output import json_option, print_json, printable, say
from weft.cli.project_argument import pass_project
from weft.cli.task_arguments import (
    all_option,
    task_argument,
    task_or_run_argument,
    tasks_argument,
    tasks_or_runs_argument,
)
from weft.errors import InputError, WeftError
from weft.operations import steering
from weft.operations.registry import ask
from weft.project.project import Project
from weft.runs import control
from weft.runs.control import ControlResult
from weft.runs.task_names import get_named
from weft.store import Store

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


class TaskList(Protocol):
    def __call__(self, store: Store, run: str | None, *, now: float) -> list[str]: ...


def _make_command(operation: str, argument: Decorator, help: str) -> click.Command:
    @click.command(name=operation, help=help)
    @argument
    @json_option
    @pass_project
    def command(project: Project, name: str, as_json: bool) -> None:
        with project.open_store() as store:
            _show(ask(project, store, operation, steering.NamedAsked(name=name)), as_json)

    return command


def _make_command_for_many(
    operation: str,
    request: Callable[[str], Struct],
    argument: Decorator,
    list_all: TaskList,
    help: str,
) -> click.Command:
    """Make a command that takes several names, or --all."""

    @click.command(name=operation, help=help)
    @argument
    @all_option
    @json_option
    @pass_project
    def command(project: Project, names: tuple[str, ...], every: str | None, as_json: bool) -> int:
        with project.open_store() as store:
            return _apply(
                lambda name: ask(project, store, operation, request(name)),
                _choose(store, names, every, list_all),
                is_list=len(names) != 1,
                as_json=as_json,
            )

    return command


def _choose(
    store: Store, names: Sequence[str], every: str | None, list_all: TaskList
) -> Sequence[str]:
    """Return the names to work on; raise before the first change if a name is unknown."""
    if (every is None) == (not names):
        raise InputError("Name one or more tasks, or give --all, with a RUN or without.")
    if every is not None:
        return list_all(store, every or None, now=time.time())
    if len(names) > 1:
        for name in names:
            get_named(store, name)
    return names


def _apply(
    operation: Callable[[str], ControlResult],
    names: Sequence[str],
    *,
    is_list: bool,
    as_json: bool,
) -> int:
    """Apply an operation to each name; report a refusal of one and go on with the rest."""
    if not is_list:
        done = operation(names[0])
        _show(done, as_json)
        return 0
    results, refused = [], {}
    for name in names:
        try:
            results.append(operation(name))
        except WeftError as error:
            refused[name] = str(error)
    if as_json:
        print_json({"results": [asdict(done) for done in results], "refused": refused})
    else:
        for done in results:
            say(done.text)
        for text in refused.values():
            click.echo(f"weft: {printable(text)}", err=True)
        if not names:
            say("There is no such task.")
    return 1 if refused else 0


def _show(done: ControlResult, as_json: bool) -> None:
    if as_json:
        print_json(asdict(done))
    else:
        say(done.text)


approve = _make_command_for_many(
    "approve",
    lambda name: steering.TaskAsked(task=name),
    tasks_argument,
    control.list_questions,
    """Approve tasks that wait for a person.

    An approved task counts as done, and the tasks that need it go on. --all approves every task
    that asks you, of RUN or of all runs.
    """,
)
cancel = _make_command_for_many(
    "cancel",
    lambda name: steering.CancelAsked(name=name),
    tasks_or_runs_argument,
    control.list_unfinished,
    """Cancel tasks, or runs with all their unfinished tasks.

    Running agents are stopped, and their work is kept. A task that is landing can no longer be
    stopped. `weft retry` reopens a task; a cancelled run has ended. --all cancels every
    unfinished task, of RUN or of all runs.
    """,
)
pause = _make_command(
    "pause",
    task_or_run_argument,
    """Keep a task, or all of a run, from starting.

    Running agents go on to their end, and tasks at the gate land. `weft resume` undoes this.
    """,
)
resume = _make_command(
    "resume",
    task_or_run_argument,
    "Let a paused task go on, or a paused run and its gate.",
)
skip = _make_command_for_many(
    "skip",
    lambda name: steering.TaskAsked(task=name),
    tasks_argument,
    control.list_stuck,
    """Leave out tasks; the tasks that need them go on.

    A running agent is stopped. `weft retry` takes a task back in. --all skips every task that
    needs you or has failed, of RUN or of all runs.
    """,
)


@click.command(name="retry")
@tasks_argument
@all_option
@click.option("--agent", metavar="NAME", help="Let this agent do the task from now on.")
@click.option("--note", metavar="TEXT", help="A sentence for the agent of the next attempt.")
@click.option(
    "--file",
    "files",
    multiple=True,
    metavar="PATH",
    help="Let it change this file too. Can be repeated.",
)
@json_option
@pass_project
def retry(
    project: Project,
    names: tuple[str, ...],
    every: str | None,
    agent: str | None,
    note: str | None,
    files: tuple[str, ...],
    as_json: bool,
) -> int:
    """Try tasks again that have ended or need you.

    Earlier failures are forgotten: a task gets all its attempts again, and the tasks that need it
    wait for it. --all retries every task that needs you or has failed, of RUN or of all runs.

    Example: weft retry 2.3 --agent claude --note "Keep the old signature."
    """
    with project.open_store() as store:
        chosen = _choose(store, names, every, control.list_stuck)

        def again(name: str) -> ControlResult:
            asked = steering.RetryAsked(
                task=name, agent=agent or "", note=note or "", files=list(files)
            )
            done: ControlResult = ask(project, store, "retry", asked)
            return done

        return _apply(again, chosen, is_list=len(names) != 1, as_json=as_json)


@click.command(name="reject")
@task_argument
@click.argument("reason")
@json_option
@pass_project
def reject(project: Project, name: str, reason: str, as_json: bool) -> None:
    """Reject a question, or the work of a task at the gate.

    A task at the gate is done again, and its agent is given REASON. A task that asks you then
    needs you, and the tasks that need it wait.
    """
    with project.open_store() as store:
        asked = steering.RejectAsked(task=name, text=reason)
        _show(ask(project, store, "reject", asked), as_json)


@click.command(name="answer")
@task_argument
@click.argument("text")
@json_option
@pass_project
def answer(project: Project, name: str, text: str, as_json: bool) -> None:
    """Answer the question of a task's agent.

    TEXT is the answer, or the number of an option: 1 is the first. The agent goes on in the same
    session, with its work so far.
    """
    with project.open_store() as store:
        asked = steering.AnswerGiven(task=name, text=text)
        _show(ask(project, store, "answer", asked), as_json)


@click.command(name="drain")
@click.option("--undo", is_flag=True, help="Let tasks start again.")
@json_option
@pass_project
def drain(project: Project, undo: bool, as_json: bool) -> None:
    """Start no more tasks on this store until --undo.

    No worker on any host takes a task. Running tasks go on to their end, and tasks at the gate
    land.
    """
    with project.open_store() as store:
        _show(ask(project, store, "drain", steering.DrainAsked(undo=undo)), as_json)
