"""Commands that change tasks and runs: `weft approve`, `weft cancel`, `weft drain` …"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import click
from msgspec.structs import asdict

from weft.cli.output import json_option, print_json, say
from weft.cli.task_arguments import task_argument, task_or_run_argument
from weft.project import project
from weft.runs import control
from weft.runs.control import ControlResult
from weft.store import Store


class Operation(Protocol):
    def __call__(self, store: Store, name: str, *, now: float) -> ControlResult: ...


def _make_command(
    name: str,
    operation: Operation,
    argument: Callable[[Callable[..., None]], Callable[..., None]],
    help: str,
) -> click.Command:
    @click.command(name=name, help=help)
    @argument
    @json_option
    @click.pass_obj
    def command(directory: Path, name: str, as_json: bool) -> None:
        _carry_out(directory, lambda store, now: operation(store, name, now=now), as_json)

    return command


def _carry_out(
    directory: Path, operation: Callable[[Store, float], ControlResult], as_json: bool
) -> None:
    with project.find(directory, os.environ).open_store() as store:
        done = operation(store, time.time())
    if as_json:
        print_json(asdict(done))
    else:
        say(done.text)


approve = _make_command(
    "approve",
    control.approve,
    task_argument,
    """Approve a task that waits for a person.

    The task counts as done, and its dependents go on.
    """,
)
cancel = _make_command(
    "cancel",
    control.cancel,
    task_or_run_argument,
    """Cancel a task, or a run with all its unfinished tasks.

    Running agents are stopped, and their work is kept. A task that is landing can no longer be
    stopped. `weft retry` reopens a task; a cancelled run has ended.
    """,
)
pause = _make_command(
    "pause",
    control.pause,
    task_or_run_argument,
    """Keep a task, or all of a run, from starting.

    Running agents go on to their end, and tasks at the gate land. `weft resume` undoes this.
    """,
)
resume = _make_command(
    "resume",
    control.resume,
    task_or_run_argument,
    "Let a paused task go on, or a paused run and its gate.",
)
retry = _make_command(
    "retry",
    control.retry,
    task_argument,
    """Try an ended or blocked task again.

    Earlier failures are forgotten: the task gets all its attempts again. Its dependents wait for
    it.
    """,
)
skip = _make_command(
    "skip",
    control.skip,
    task_argument,
    """Leave out a task; its dependents go on as if it were done.

    A running agent is stopped. `weft retry` takes the task back in.
    """,
)


@click.command(name="reject")
@task_argument
@click.argument("reason")
@json_option
@click.pass_obj
def reject(directory: Path, name: str, reason: str, as_json: bool) -> None:
    """Reject a question, or the work of a task at the gate.

    A task at the gate is done again, and its agent is given REASON. A task that asks a person is
    blocked, and its dependents wait.
    """
    _carry_out(directory, lambda store, now: control.reject(store, name, reason, now=now), as_json)


@click.command(name="drain")
@click.option("--undo", is_flag=True, help="Let tasks start again.")
@json_option
@click.pass_obj
def drain(directory: Path, undo: bool, as_json: bool) -> None:
    """Start no more tasks on this store until --undo.

    No worker on any host takes a task. Running tasks go on to their end, and tasks at the gate
    land.
    """
    operation = control.admit_again if undo else control.stop_admissions
    _carry_out(directory, lambda store, now: operation(store, now=now), as_json)
